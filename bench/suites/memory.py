"""The peak of resident memory of training steps: the process through its first call, and later.

Both figures stand where CPU and wall time do elsewhere: ``--clock cpu`` shows the peak up to the
end of the first call, which compiles; ``--clock wall`` that of three more calls.
"""

from __future__ import annotations

from typing import Any

from bench.rows import Program, Row, same
from bench.suites import models


def _mlp(jax: Any) -> Program:
    return Program(models.sgd(jax, models.mlp_loss(jax)), models.mlp_arguments())


def _resnet(jax: Any) -> Program:
    return Program(models.sgd(jax, models.resnet_loss(jax)), models.resnet_arguments())


def _language(layers: int) -> Any:
    def setup(jax: Any) -> Program:
        step = models.adam(jax, models.language_loss(jax))
        return Program(step, models.language_arguments(layers))

    return setup


PROGRAMS = {
    "MLP": _mlp,
    "transformer of 2": _language(2),
    "transformer of 12": _language(12),
    "ResNet-18": _resnet,
}

ROWS = [
    Row(
        f"{when}: {name}",
        "peak of resident memory",
        same(setup),
        kind="peak",
        unit="MB",
        clock=clock,
        ratio=1.0,
        limit=120.0,
    )
    for name, setup in PROGRAMS.items()
    for when, clock in (("first call", "cpu"), ("later calls", "wall"))
]
