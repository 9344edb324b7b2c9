"""Options of one compilation: what ``jit(compiler_options=...)`` and ``compile(...)`` are given."""

from __future__ import annotations

from typing import Any

from weft.base.errors import JaxRuntimeError
from weft.base.source import warn
from weft.core.jaxpr import Jaxpr, jaxprs_in_params

# what steers XLA and its name does not tell
_OF_XLA = frozenset(
    "exec_time_optimization_effort memory_fitting_effort memory_fitting_level"
    " optimization_level".split()
)
# whether any function has been given options, so that programs need be searched for them
_given = False


def options_items(options: dict[str, Any] | None) -> tuple[tuple[str, Any], ...]:
    """Options as the sorted pairs that equations carry."""
    global _given
    if not options:
        return ()
    _given = True
    return tuple(sorted(options.items()))


def check_options(items: tuple[tuple[str, Any], ...]) -> None:
    """Refuse options that no compiler knows; say of XLA's that they do nothing here."""
    for name, _ in items:
        if not name.startswith("xla_") and name not in _OF_XLA:
            raise JaxRuntimeError(
                f"there is no compiler option {name!r}; weft is set by weft.config.update, see"
                " docs/knobs.md"
            )
        warn(f"the compiler option {name} steers XLA, which weft does not use: it has no effect")


def refuse_nested_options(jaxpr: Jaxpr) -> None:
    """Raise ValueError if a function that is called in a program has options of its own."""
    if not _given:
        return
    for eqn in jaxpr.eqns:
        if eqn.params.get("compiler_options_kvs"):
            raise ValueError(
                "compiler_options can only be given to the outermost jit, but"
                f" {eqn.params['name']}, which it calls, has"
                f" {dict(eqn.params['compiler_options_kvs'])}"
            )
        for inner in jaxprs_in_params(eqn.params):
            refuse_nested_options(inner)
