"""Stand-ins for private names of JAX that libraries read and weft has nothing for."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from weft.base.source import is_internal
from weft.core.dims.dim import max_dim as max_dim
from weft.core.dims.dim import min_dim as min_dim
from weft.core.jaxpr import Var
from weft.core.trace import Tracer, eval_trace, set_trace
from weft.dtypes.kinds import ExtendedDType as _ExtendedDType
from weft.extend.backend import backends as _backends
from weft.runtime import devices
from weft.tree.kinds import kind_of, kinds
from weft.tree.registry import is_tree_node


class TypedNdArray(np.ndarray):
    """The class of literals that carry a dtype: weft has none, so nothing is an instance."""


def gensym(suffix: str = "") -> Callable[[Any], Var]:
    """What makes a new variable of a type; weft names variables when it prints them."""
    return Var


class TypedInt(int):
    """The class of Python integers that carry a dtype, which weft does not make."""


class TypedFloat(float):
    """The class of Python floats that carry a dtype, which weft does not make."""


class TypedComplex(complex):
    """The class of Python complex numbers that carry a dtype, which weft does not make."""


class Nothing:
    """A class that nothing is an instance of."""


class DeviceList(Nothing):
    """A class of lists of devices, which weft keeps as tuples."""


Out = Any  # a type variable of annotations


class ExtendedDType(_ExtendedDType):
    """The base of dtypes that libraries define; it asks for what JAX's asks for."""

    @property
    def physical_dtype(self) -> Any:
        raise TypeError(f"{type(self).__name__} does not say what its elements are made of")

    @property
    def physical_shape(self) -> tuple[int, ...]:
        return ()

    @property
    def storage(self) -> Any:
        return self.physical_dtype


class RegistryEntry(NamedTuple):
    """How containers of one type are flattened and unflattened."""

    to_iter: Callable[[Any], Any]
    from_iter: Callable[[Any, Any], Any]


class _Registry(Mapping[type, RegistryEntry]):
    """The types that are containers, by type. Named tuples are known without being registered."""

    def __contains__(self, typ: Any) -> bool:
        return is_tree_node(typ)

    def __getitem__(self, typ: type) -> RegistryEntry:
        kind = kind_of(typ)
        if kind is None:
            raise KeyError(typ)
        return RegistryEntry(kind.expand, kind.build)

    def __iter__(self) -> Iterator[type]:
        return iter(kinds)

    def __len__(self) -> int:
        return len(kinds)


registry = _Registry()


class _InUse(Mapping[str, Any]):
    """The backends that have been asked for their devices."""

    def _found(self) -> dict[str, Any]:
        return _backends() if devices._devices else {}

    def __getitem__(self, platform: str) -> Any:
        return self._found()[platform]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())


backends = _InUse()


def infer_argnums_and_argnames(
    sig: inspect.Signature, argnums: Any, argnames: Any
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of parameters, where one of them is given.

    >>> infer_argnums_and_argnames(inspect.signature(lambda x, n: x), None, "n")
    ((1,), ('n',))
    """
    nums = () if argnums is None else as_positions(argnums)
    names = (
        () if argnames is None else (argnames,) if isinstance(argnames, str) else tuple(argnames)
    )
    by_name = inspect.Parameter.POSITIONAL_OR_KEYWORD
    both = [(i, k) for i, (k, p) in enumerate(sig.parameters.items()) if p.kind == by_name]
    if argnums is None:
        nums = tuple(i for i, name in both if name in names)
    elif argnames is None:
        names = tuple(name for i, name in both if i in nums)
    return nums, names


def as_positions(argnums: Any) -> tuple[int, ...]:
    """One position or several, as a tuple."""
    many = argnums if isinstance(argnums, Iterable) else (argnums,)
    return tuple(operator.index(i) for i in many)


def full_lower(x: Any) -> Any:
    """A value without the tracers that merely wrap it."""
    lower = getattr(x, "full_lower", None)
    return x if lower is None or not isinstance(x, Tracer) else lower()


def eval_context() -> Any:
    """A scope in which nothing is traced."""
    return set_trace(eval_trace)


def physical_aval(aval: Any) -> Any:
    """The type of what elements are made of: the type itself but for random keys."""
    shape = getattr(aval.dtype, "physical_shape", None)
    if shape is None:
        return aval
    return type(aval)((*aval.shape, *shape), aval.dtype.physical_dtype)


def include_frame(frame: Any) -> bool:
    """Whether a frame is the user's."""
    return not is_internal(frame.f_code.co_filename)


def backend_compile_and_load(*args: Any, **kwargs: Any) -> Any:
    """Compilation by XLA, which tests of libraries count the calls of."""
    raise TypeError("weft has its own compiler: there is no XLA to pass a module to")


def refuse_callback(*args: Any, **kwargs: Any) -> Any:
    """Lowering of a callback to XLA."""
    raise TypeError(
        "weft has no MLIR to emit a callback into; give the primitive a lowering made by"
        " mlir.lower_fun, or use jax.pure_callback or jax.experimental.io_callback"
    )


def refuse_results(*args: Any, **kwargs: Any) -> Any:
    """How XLA's results become arrays."""
    raise TypeError("weft creates its own arrays: there are no XLA results to handle")
