"""Tracing, abstract values, programs and primitives: what every transformation stands on."""

from weft.core.avals import AbstractValue as AbstractValue
from weft.core.avals import ShapedArray as ShapedArray
from weft.core.dims.dim import max_dim as max_dim
from weft.core.dims.dim import min_dim as min_dim
from weft.core.jaxpr import Atom as Atom
from weft.core.jaxpr import eval_jaxpr as eval_jaxpr
from weft.core.trace import Trace as Trace
from weft.core.trace import Tracer as Tracer
