"""Primitives of third parties, and the data types of programs.

>>> import numpy as np
>>> import weft
>>> from weft.extend.core import Primitive
>>> triple_p = Primitive("triple")
>>> _ = triple_p.def_impl(lambda x: x + x + x)
>>> _ = triple_p.def_abstract_eval(lambda x: x)
>>> _ = triple_p.def_jvp(lambda p, t: (triple_p.bind(*p), triple_p.bind(*t)))
>>> _ = triple_p.def_transpose(lambda ct, x: [triple_p.bind(ct)])
>>> _ = triple_p.def_batching(lambda args, dims: (triple_p.bind(*args), dims[0]))
>>> float(weft.grad(lambda x: triple_p.bind(x) * x)(2.0))
12.0
"""

import numpy as _np

from weft.base.errors import JaxprTypeError as JaxprTypeError
from weft.core.array import Array as _Array
from weft.core.avals import AbstractToken as AbstractToken
from weft.core.debug_info import DebugInfo as DebugInfo
from weft.core.effects import Effect as Effect
from weft.core.effects import Effects as Effects
from weft.core.effects import no_effects as no_effects
from weft.core.jaxpr import ClosedJaxpr as ClosedJaxpr
from weft.core.jaxpr import DropVar as DropVar
from weft.core.jaxpr import Jaxpr as Jaxpr
from weft.core.jaxpr import JaxprEqn as JaxprEqn
from weft.core.jaxpr import Literal as Literal
from weft.core.jaxpr import Var as Var
from weft.core.jaxpr import eval_jaxpr as eval_jaxpr
from weft.core.jaxpr import jaxpr_as_fun as jaxpr_as_fun
from weft.core.jaxpr import jaxprs_in_params as jaxprs_in_params
from weft.core.jaxpr import subjaxprs as subjaxprs
from weft.core.verify import check_jaxpr as check_jaxpr
from weft.extend.core import primitives as primitives
from weft.extend.core.primitive import Primitive as Primitive
from weft.extend.core.tracing import TraceTag as TraceTag
from weft.extend.core.tracing import concrete_or_error as concrete_or_error
from weft.extend.core.tracing import find_top_trace as find_top_trace
from weft.extend.core.tracing import get_opaque_trace_state as get_opaque_trace_state
from weft.extend.core.tracing import mapped_aval as mapped_aval
from weft.extend.core.tracing import new_jaxpr_eqn as new_jaxpr_eqn
from weft.extend.core.tracing import nonempty_axis_env_DO_NOT_USE as nonempty_axis_env_DO_NOT_USE
from weft.extend.core.tracing import set_current_trace as set_current_trace
from weft.extend.core.tracing import take_current_trace as take_current_trace
from weft.extend.core.tracing import unmapped_aval as unmapped_aval
from weft.extend.core.tracing import (
    unsafe_am_i_under_a_jit_DO_NOT_USE as unsafe_am_i_under_a_jit_DO_NOT_USE,
)
from weft.extend.core.tracing import (
    unsafe_am_i_under_a_vmap_DO_NOT_USE as unsafe_am_i_under_a_vmap_DO_NOT_USE,
)
from weft.extend.core.tracing import (
    unsafe_get_axis_names_DO_NOT_USE as unsafe_get_axis_names_DO_NOT_USE,
)
from weft.extend.core.tracing import valid_jaxtype as valid_jaxtype

Token = AbstractToken
array_types = {_np.ndarray, _np.generic, _Array}
