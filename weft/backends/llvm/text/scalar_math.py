"""The mathematics of kernels as functions of single numbers, for stubs to call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from weft.backends.llvm import code
from weft.backends.llvm.code import Module
from weft.backends.llvm.text.instructions import scalar_type
from weft.backends.llvm.text.render import Function
from weft.backends.llvm.text.stub import called_stubs, signature, translate
from weft.base.functional import lru
from weft.kernel import kinds
from weft.kernel import math as real
from weft.kernel.build import Builder
from weft.kernel.kernel import Kernel
from weft.kernel.kinds import External
from weft.kernel.nodes import Value

_MADE: dict[str, Callable[..., Value]] = {
    "sqrt": Builder.sqrt,
    "floor": Builder.floor,
    "power": real.pow,
    **{name: getattr(real, name) for name in "exp log log1p expm1 erfc digamma erf_inv".split()},
}


@lru(32)
def _definition(name: str) -> Module:
    """One of the functions."""
    single = name.endswith("_single")
    dtype = np.dtype(np.float32 if single else np.float64)
    stem = name.removesuffix("_single")
    k = Builder()
    operands = [k.load(i, dtype) for i in range(1 + (stem == "power"))]
    f = Function(Kernel(name, [], None, []), 1)
    f.known.update({(x.number, 1): f"%x{i}" for i, x in enumerate(operands)})
    found = f.value(_MADE[stem](k, *operands))
    kind = scalar_type(dtype)
    given = code.parameters(kind, *[f"x{i}" for i in range(len(operands))])
    lines = ("entry:", *f.lines, f"  ret {kind} {found}")
    made = code.Function(name, given, lines, kind, ("nounwind", "noinline"), internal=True)
    return Module([made], f.declared)


def translate_with_math(
    main: Any,
    names: dict[str, Any],
    plain: bool = False,
    inline: tuple[Any, ...] = (),
    **given: Any,
) -> Module:
    """The module of a stub with all it calls: other stubs, functions of this file.

    Loops may be ``plain``, as those of `translate`; stubs ``inline`` become part of those that
    call them. ``given`` says what it calls by other names: a stub, or the name of a function of
    this file.
    """
    helpers = called_stubs([f for f in given.values() if isinstance(f, FunctionType)] + [main])
    helpers.remove(main)
    known = {name: _signature(f) for name, f in given.items()}
    made = translate([*helpers, main], names | known, [f.__name__ for f in helpers], plain)
    apart = {f.__name__ for f in helpers if f not in inline}
    made = made.mapped(lambda f: f.without("alwaysinline") if f.name in apart else f)
    other = {name: getattr(f, "__name__", f) for name, f in given.items()}
    called = [other.get(name, name) for name in made.declared]
    own = [_definition(name) for name in called if name.removesuffix("_single") in _MADE]
    return made.renamed(other).joined(*own)


def _signature(f: Any) -> External:
    return getattr(kinds, f) if isinstance(f, str) else signature(f, {})
