"""Texts of stubs that LLVM makes code of as they are, or in two parts with more and less care."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from weft.backends.llvm.native.llvm import QUICK
from weft.backends.llvm.native.parts import PART
from weft.backends.llvm.text.stub import called_stubs, translate


def plain_text(stubs: Sequence[Any], names: Mapping[str, Any], private: Sequence[str] = ()) -> str:
    """The text of stubs that need none of LLVM's passes, of which some are private."""
    return translate(stubs, names, private).partition("\n")[2]


def called_text(mains: Sequence[Any], names: Mapping[str, Any]) -> str:
    """The same of stubs and what they call."""
    stubs = called_stubs([*mains])
    return plain_text(stubs, names, [f.__name__ for f in stubs if f not in mains])


def calling_text(
    main: Any, names: Mapping[str, Any], others: Sequence[Any], apart: bool = False, **more: Any
) -> str:
    """The text of a stub that does little but call ``others``, which alone are worth care; they may
    be given more names, and have nothing in common where each is made ``apart``."""
    stubs = called_stubs([main])
    private = [f.__name__ for f in stubs if f is not main]
    text = translate(stubs, names, private, outside=[f.__name__ for f in others])
    used = [f for f in others if f"@{f.__name__}(" in text]
    groups = [[f] for f in used] if apart else [used] * bool(used)
    careful = [called_text(group, {**names, **more}) for group in groups]
    return PART.join([*careful, QUICK + text.partition("\n")[2]])
