"""Types and operations that libraries define, made of arrays and differentiated by their own rules.

``register_hitype`` gives a class of values a ``HiType``: what arrays it is made of, and what its
tangents are. ``HiPrimitive`` is an operation on such values; ``VJPHiPrimitive`` one with a
reverse-mode rule. Programs have arrays only: values are taken apart where a function is compiled
and put together again inside, and operations are replaced by what they expand to.
"""

from weft.core.ad import Zero as Zero
from weft.core.ad import instantiate as instantiate_zeros
from weft.core.ad import is_undef as is_undefined_primal
from weft.core.avals import AbstractValue as AbstractValue
from weft.core.avals import ShapedArray as ShapedArray
from weft.experimental.hijax.primitives import HiPrimitive as HiPrimitive
from weft.experimental.hijax.rules import VJPHiPrimitive as VJPHiPrimitive
from weft.experimental.hijax.types import AvalMutableQDD as AvalMutableQDD
from weft.experimental.hijax.types import AvalQDD as AvalQDD
from weft.experimental.hijax.types import HiType as HiType
from weft.experimental.hijax.types import MutableHiType as MutableHiType
from weft.experimental.hijax.types import aval_method as aval_method
from weft.experimental.hijax.types import aval_property as aval_property
from weft.experimental.hijax.types import (
    control_flow_allowed_effects as control_flow_allowed_effects,
)
from weft.experimental.hijax.types import register_hitype as register_hitype
from weft.state.types import AbstractRef as AbstractRef
from weft.state.types import TransformedRef as TransformedRef

__all__ = [
    "AbstractRef",
    "AbstractValue",
    "AvalMutableQDD",
    "AvalQDD",
    "HiPrimitive",
    "HiType",
    "MutableHiType",
    "ShapedArray",
    "TransformedRef",
    "VJPHiPrimitive",
    "Zero",
    "aval_method",
    "aval_property",
    "control_flow_allowed_effects",
    "instantiate_zeros",
    "is_undefined_primal",
    "register_hitype",
]
