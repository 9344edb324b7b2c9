"""The stages of a jitted function: traced, lowered, compiled."""

from weft.api.jit import JitFunction as Wrapped
from weft.api.stages import ArgInfo as ArgInfo
from weft.api.stages import Compiled as Compiled
from weft.api.stages import Lowered as Lowered
from weft.api.stages import Traced as Traced

CompilerOptions = dict[str, str | bool]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
