"""How much of JAX's public interface is there, and that it has JAX's signatures."""

from pathlib import Path

import pytest

from tools import api_coverage

MODULES = {module.name: module for module in api_coverage.coverage()}
ALL = list(MODULES.values())

# Modules of which every name is there.
WHOLE = (
    """
jax.ad_checkpoint jax.checkpoint_policies jax.custom_batching jax.custom_derivatives jax.debug
jax.dlpack jax.dtypes jax.errors jax.flatten_util jax.image jax.lax.linalg jax.nn
jax.nn.initializers jax.numpy jax.numpy.fft jax.numpy.linalg jax.ops jax.random jax.scipy.linalg
jax.scipy.special jax.stages jax.test_util jax.tree jax.tree_util jax.experimental.checkify
jax.experimental.jet jax.experimental.layout jax.experimental.mesh_utils jax.experimental.ode
""".split()
    + [name for name in MODULES if name.startswith("jax.scipy")]
)
# Part of all names that is there at least; it may only grow.
LEAST = 0.98


@pytest.mark.parametrize("name", sorted(set(WHOLE)))
def test_whole_modules(name: str) -> None:
    assert MODULES[name].missing == []


def test_functions_of_lax() -> None:
    assert not MODULES["jax.lax"].missing


def test_most_names_are_there() -> None:
    total = sum(module.total for module in ALL)
    assert total > 1700
    assert sum(module.present for module in ALL) >= LEAST * total


def test_what_is_missing_has_a_reason() -> None:
    assert api_coverage.without_reason(ALL) == []


def test_what_differs_has_a_reason() -> None:
    assert api_coverage.unexplained(ALL) == []


def test_reasons_are_of_today() -> None:
    assert api_coverage.outdated(ALL) == []


@pytest.mark.parametrize(
    ("listed", "actual", "equal"),
    [
        ("(x, y=1)", lambda x, y=1: 0, True),
        ("(x, y=1)", lambda x, y=2: 0, False),
        ("(x, y=1)", lambda x, y: 0, False),
        ("(x, y=...)", lambda x, y=3: 0, True),
        ("(x, /)", lambda a, /: 0, True),
        ("(x)", lambda a: 0, False),
        ("(*, x=None, y=None)", lambda *, y=None, x=None: 0, True),
        ("(x, *, y=None)", lambda x, y=None: 0, False),
        ("(x=Precision.HIGHEST)", lambda x=4: 0, True),
        ("(*args, **kw)", lambda *args, **kwargs: 0, True),
    ],
)
def test_signatures_are_compared(listed: str, actual, equal: bool) -> None:
    wanted = api_coverage.listed_parameters(listed)
    assert api_coverage.same(wanted, api_coverage.actual_parameters(actual)) is equal


def test_what_is_not_there_is_found(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("## jax.nn (2)\nrelu(x)\nno_such_function(x)\n\n## jax.no_such (1)\nf(x)\n")
    nn, none = api_coverage.coverage(path)
    assert nn.missing == ["no_such_function"] and none.missing == ["f"]
    assert api_coverage.without_reason([nn]) == ["jax.nn.no_such_function"]
    assert any("NO REASON" in line for line in api_coverage.details([nn, none]))
