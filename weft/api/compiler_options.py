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
# kinds of values of some that people set; others of XLA's are taken as they are
_KINDS = {
    "xla_cpu_enable_fast_math": bool,
    "xla_cpu_enable_fast_min_max": bool,
    "xla_cpu_multi_thread_eigen": bool,
    "xla_disable_hlo_passes": str,
    "xla_dump_hlo_as_text": bool,
    "xla_dump_max_hlo_modules": int,
    "xla_dump_to": str,
    "xla_embed_ir_in_executable": bool,
    "xla_gpu_autotune_level": int,
    "xla_gpu_enable_latency_hiding_scheduler": bool,
    "xla_gpu_enable_triton_gemm": bool,
    "xla_gpu_graph_level": int,
    "xla_llvm_disable_expensive_passes": bool,
    "xla_backend_optimization_level": int,
}
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
    for name, value in items:
        if not name.startswith("xla_") and name not in _OF_XLA:
            raise JaxRuntimeError(
                f"there is no compiler option {name!r}; set weft's options with "
                "weft.config.update, see docs/knobs.md"
            )
        _check_value(name, value)
        warn(f"the compiler option {name} is for XLA, which weft does not use; it has no effect")


def _check_value(name: str, value: Any) -> None:
    """Refuse what is no value of an option."""
    kind = _KINDS.get(name)
    if kind is bool:
        fits = isinstance(value, bool) or str(value).lower() in ("true", "false", "0", "1")
    elif kind is int:
        fits = type(value) is int or (isinstance(value, str) and value.lstrip("+-").isdigit())
    else:
        fits = kind is None or isinstance(value, kind)
    if kind is not None and not fits:
        raise JaxRuntimeError(
            f"INVALID_ARGUMENT: the compiler option {name} takes values of type {kind.__name__},"
            f" got {value!r}"
        )


def refuse_nested_options(jaxpr: Jaxpr) -> None:
    """Raise ValueError if a function that is called in a program has options of its own."""
    if not _given:
        return
    for eqn in jaxpr.eqns:
        if eqn.params.get("compiler_options_kvs"):
            raise ValueError(
                "compiler_options can only be passed to the outermost jit, but"
                f" {eqn.params['name']}, which it calls, has"
                f" {dict(eqn.params['compiler_options_kvs'])}"
            )
        for inner in jaxprs_in_params(eqn.params):
            refuse_nested_options(inner)
