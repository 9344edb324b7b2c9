"""weft: NumPy functions that can be differentiated, batched, compiled and run in parallel."""

from weft import dtypes as dtypes
from weft import errors as errors
from weft import lax as lax
from weft import numpy as numpy
from weft import tree as tree
from weft import tree_util as tree_util
from weft import typing as typing
from weft.api.autodiff import fwd_and_bwd as fwd_and_bwd
from weft.api.autodiff import grad as grad
from weft.api.autodiff import jvp as jvp
from weft.api.autodiff import linear_transpose as linear_transpose
from weft.api.autodiff import linearize as linearize
from weft.api.autodiff import value_and_grad as value_and_grad
from weft.api.autodiff import vjp as vjp
from weft.api.batching import vmap as vmap
from weft.api.jacobians import hessian as hessian
from weft.api.jacobians import jacfwd as jacfwd
from weft.api.jacobians import jacobian as jacobian
from weft.api.jacobians import jacrev as jacrev
from weft.api.jit import jit as jit
from weft.api.placement import block_until_ready as block_until_ready
from weft.api.placement import copy_to_host_async as copy_to_host_async
from weft.api.placement import device_get as device_get
from weft.api.placement import device_put as device_put
from weft.api.placement import disable_jit as disable_jit
from weft.api.placement import effects_barrier as effects_barrier
from weft.api.placement import ensure_compile_time_eval as ensure_compile_time_eval
from weft.api.placement import named_call as named_call
from weft.api.placement import named_scope as named_scope
from weft.api.staging import eval_shape as eval_shape
from weft.api.staging import make_jaxpr as make_jaxpr
from weft.base import knobs as _knobs
from weft.base.functional import clear_all_caches as clear_caches
from weft.base.knobs import config as config
from weft.core import hooks as _hooks
from weft.core import printing as _printing
from weft.core.array import Array as Array
from weft.core.shape_dtype import ShapeDtypeStruct as ShapeDtypeStruct
from weft.core.sharding import NamedSharding as NamedSharding
from weft.core.sharding import PartitionSpec as P
from weft.core.trace import typeof as typeof
from weft.dtypes import float0 as float0
from weft.numpy.operators import methods as _methods
from weft.runtime.array import box as _box
from weft.runtime.devices import Device as Device
from weft.runtime.devices import default_backend as default_backend
from weft.runtime.devices import device_count as device_count
from weft.runtime.devices import devices as devices
from weft.runtime.devices import local_device_count as local_device_count
from weft.runtime.devices import local_devices as local_devices
from weft.runtime.devices import process_count as process_count
from weft.runtime.devices import process_index as process_index
from weft.runtime.devices import process_indices as process_indices
from weft.runtime.evaluate import evaluate as _evaluate

_hooks.set_evaluate(_evaluate)
_hooks.set_box(_box)
_hooks.set_operators(_methods())

enable_x64 = _knobs.enable_x64

__version__ = "0.1.0"
