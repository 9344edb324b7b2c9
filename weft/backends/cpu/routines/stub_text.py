"""Modules of stubs that LLVM compiles as they are, or in two parts with more and less effort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.backends.llvm.code import Effort, Module
from weft.backends.llvm.text.stub import called_stubs, known_to, translate


def plain_module(
    stubs: Sequence[Any], names: Mapping[str, Any], private: Sequence[str] = ()
) -> Module:
    """The module of stubs that need none of LLVM's passes, of which some are private."""
    return translate(stubs, names, private).with_effort(Effort.KERNEL)


def called_module(mains: Sequence[Any], names: Mapping[str, Any]) -> Module:
    """The same of stubs and what they call."""
    stubs = called_stubs([*mains])
    names = known_to(mains[0], names, *mains[1:])
    return plain_module(stubs, names, [f.__name__ for f in stubs if f not in mains])


def calling_module(
    main: Any, names: Mapping[str, Any], others: Sequence[Any], apart: bool = False, **more: Any
) -> Module:
    """The module of a stub that does little but call ``others``, which alone are worth effort; they
    may be given more names, and have nothing in common where each is made ``apart``."""
    stubs = called_stubs([main])
    private = [f.__name__ for f in stubs if f is not main]
    made = translate(stubs, known_to(main, names), private, outside=[f.__name__ for f in others])
    called = {name for f in made.functions for name in f.calls}
    used = [f for f in others if f.__name__ in called]
    groups = [[f] for f in used] if apart else [used] * bool(used)
    careful = [called_module(group, {**names, **more}) for group in groups]
    return made.with_effort(Effort.QUICK).after(*careful)
