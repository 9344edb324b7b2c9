"""Make the recorded answers of optax anew (needs the ``oracle`` extra and optax 0.2.8).

``python tools/record_optim.py [family ...]`` writes ``tests/optim/data``.
"""

import inspect
import json
import operator
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import jax
import jax.numpy as jnp
import optax

from tests.optim import harness
from tests.optim.cases import FAMILIES


def record(family: str) -> None:
    outcomes = {}
    for case in sorted(FAMILIES[family], key=lambda case: case.x64):
        jax.config.update("jax_enable_x64", case.x64)
        result = harness.outcome(case, harness.Library(jax, jnp, optax, case.x64, not case.eager))
        wrong = case.name.startswith("error_")
        if wrong != ("error" in result):
            print(
                f"{family}/{case.id}: {result.get('error', 'no error')} {result.get('message', '')}"
            )
            continue
        outcomes[case.id] = result
    harness.save(family, outcomes)
    size = (harness.DATA / f"{family}.npz").stat().st_size
    print(f"{family}: {len(outcomes)} cases, {size:,} bytes")


MODULES = (
    " assignment contrib experimental.aggregating losses microbatching perturbations projections "
    "schedules second_order transforms tree tree_utils"
).split(" ")


def signature(value) -> str | None:
    """Names, kinds and plain defaults of the parameters; nothing for what is not a function."""
    plain = isinstance(value, type) and not hasattr(value, "_fields")
    if plain or type(value).__module__ == "typing" or not callable(value):
        return None
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    return ", ".join(map(harness.describe_parameter, parameters))


def record_names() -> None:
    """All public names of optax, with their signatures."""
    names = {}
    for module in MODULES:
        held = operator.attrgetter(module)(optax) if module else optax
        listed = {
            name
            for name, value in vars(held).items()
            if not name.startswith("_")
            and not inspect.ismodule(value)
            and "optax" in (getattr(value, "__module__", "") or "optax")
        }
        if module in ("", "transforms"):
            listed |= set(held.__all__)
        values = {name: getattr(held, name) for name in sorted(listed)}
        names[module] = {
            name: signature(value) for name, value in values.items() if not inspect.ismodule(value)
        }
    (harness.DATA / "names.json").write_text(json.dumps(names, indent=0) + "\n")
    print(sum(map(len, names.values())), "names")


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["names", *FAMILIES]
    for name in chosen:
        record_names() if name == "names" else record(name)
