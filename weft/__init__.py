"""weft: NumPy functions that can be differentiated, batched, compiled and run in parallel."""

import sys as _sys
import typing as _typing

from weft import dtypes as dtypes
from weft import prims as _prims
from weft import tree as tree
from weft.api.jit import jit as jit
from weft.api.jit import set_sampler as _set_sampler
from weft.api.learning import learning as _learning
from weft.base import knobs as _knobs
from weft.base import lazy as _lazy
from weft.base.functional import clear_all_caches as clear_caches
from weft.base.knobs import config as config
from weft.base.knobs import make_user_context as make_user_context
from weft.base.traceback import expose as _expose
from weft.base.traceback import set_eager as _set_eager
from weft.core import hooks as _hooks
from weft.core.array import Array as Array
from weft.core.jaxpr import set_printer as _set_printer
from weft.core.shape_dtype import ShapeDtypeStruct as ShapeDtypeStruct
from weft.core.sharding import NamedSharding as NamedSharding
from weft.core.sharding import PartitionSpec as P
from weft.core.trace import eval_trace as _eval_trace
from weft.core.trace import state as _state
from weft.core.trace import typeof as typeof
from weft.dtypes import float0 as float0
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

if _typing.TYPE_CHECKING:
    from weft import ad as ad
    from weft import ad_checkpoint as ad_checkpoint
    from weft import checkpoint_policies as checkpoint_policies
    from weft import custom_batching as custom_batching
    from weft import custom_derivatives as custom_derivatives
    from weft import debug as debug
    from weft import distributed as distributed
    from weft import dlpack as dlpack
    from weft import errors as errors
    from weft import experimental as experimental
    from weft import export as export
    from weft import image as image
    from weft import lax as lax
    from weft import memory as memory
    from weft import nn as nn
    from weft import numpy as numpy
    from weft import ops as ops
    from weft import profiler as profiler
    from weft import random as random
    from weft import ref as ref
    from weft import scipy as scipy
    from weft import sharding as sharding
    from weft import stages as stages
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
    from weft.api.callbacks import effects_barrier as effects_barrier
    from weft.api.callbacks import pure_callback as pure_callback
    from weft.api.checks import checks as checks
    from weft.api.environment import live_arrays as live_arrays
    from weft.api.environment import print_environment_info as print_environment_info
    from weft.api.explain import explain as explain
    from weft.api.jacobians import hessian as hessian
    from weft.api.jacobians import jacfwd as jacfwd
    from weft.api.jacobians import jacobian as jacobian
    from weft.api.jacobians import jacrev as jacrev
    from weft.api.placement import block_until_ready as block_until_ready
    from weft.api.placement import copy_to_host_async as copy_to_host_async
    from weft.api.placement import device_get as device_get
    from weft.api.placement import device_put as device_put
    from weft.api.placement import disable_jit as disable_jit
    from weft.api.placement import ensure_compile_time_eval as ensure_compile_time_eval
    from weft.api.placement import named_call as named_call
    from weft.api.placement import named_scope as named_scope
    from weft.api.recompiles import explain_recompiles as explain_recompiles
    from weft.api.recompiles import no_recompiles as no_recompiles
    from weft.api.recompiles import no_transfers as no_transfers
    from weft.api.remat import checkpoint as checkpoint
    from weft.api.remat import remat as remat
    from weft.api.staging import eval_shape as eval_shape
    from weft.api.staging import make_jaxpr as make_jaxpr
    from weft.api.threads import get_num_threads as get_num_threads
    from weft.api.threads import num_threads as num_threads
    from weft.api.threads import set_num_threads as set_num_threads
    from weft.api.verifying.verify import verify as verify
    from weft.control.custom_jvp import custom_jvp as custom_jvp
    from weft.custom_derivatives import closure_convert as closure_convert
    from weft.custom_derivatives import custom_gradient as custom_gradient
    from weft.custom_derivatives import custom_vjp as custom_vjp
    from weft.parallel.pmap import pmap as pmap
    from weft.parallel.shard_map import shard_map as shard_map
    from weft.parallel.shard_map import smap as smap
    from weft.ref import Ref as Ref
    from weft.ref import ds as ds
    from weft.ref import empty_ref as empty_ref
    from weft.ref import free_ref as free_ref
    from weft.ref import freeze as freeze
    from weft.ref import new_ref as new_ref
    from weft.runtime.array import Shard as Shard
    from weft.sharding import make_array_from_callback as make_array_from_callback
    from weft.sharding import (
        make_array_from_process_local_data as make_array_from_process_local_data,
    )
    from weft.sharding import (
        make_array_from_single_device_arrays as make_array_from_single_device_arrays,
    )
    from weft.sharding import make_mesh as make_mesh
    from weft.sharding import reshard as reshard
    from weft.sharding import set_mesh as set_mesh
else:  # what nothing above needs is loaded when it is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (
            "ad ad_checkpoint checkpoint_policies custom_batching custom_derivatives debug "
            "distributed dlpack errors experimental export image lax memory nn numpy ops profiler "
            "random ref scipy sharding stages tree_util typing"
        ).split(),
        {
            "weft.api.autodiff": (
                "fwd_and_bwd grad jvp linear_transpose linearize value_and_grad vjp"
            ),
            "weft.api.batching": "vmap",
            "weft.api.callbacks": "effects_barrier pure_callback",
            "weft.api.checks": "checks",
            "weft.api.environment": "live_arrays print_environment_info",
            "weft.api.explain": "explain",
            "weft.api.jacobians": "hessian jacfwd jacobian jacrev",
            "weft.api.placement": (
                "block_until_ready copy_to_host_async device_get device_put disable_jit "
                "ensure_compile_time_eval named_call named_scope"
            ),
            "weft.api.recompiles": "explain_recompiles no_recompiles no_transfers",
            "weft.api.remat": "checkpoint remat",
            "weft.api.staging": "eval_shape make_jaxpr",
            "weft.api.verifying.verify": "verify",
            "weft.control.custom_jvp": "custom_jvp",
            "weft.custom_derivatives": "closure_convert custom_gradient custom_vjp",
            "weft.ref": "Ref ds empty_ref free_ref freeze new_ref",
            "weft.runtime.array": "Shard",
            "weft.api.threads": "get_num_threads num_threads set_num_threads",
            "weft.parallel.pmap": "pmap",
            "weft.parallel.shard_map": "shard_map smap",
            "weft.sharding": (
                "make_array_from_callback make_array_from_process_local_data "
                "make_array_from_single_device_arrays make_mesh reshard set_mesh"
            ),
        },
    )

_eager = _lazy.Late("weft.api.eager")
_operators = _lazy.Late("weft.numpy.operators")
_printing = _lazy.Late("weft.core.printing")
_sampling = _lazy.Late("weft.api.verifying.sampling")


def _find_operator(name):
    """The operator of arrays of that name, of which concrete arrays may have a faster one."""
    method = _operators.find(name)
    _eager.attach(name, method)
    return method


_set_printer(lambda thing, **settings: _printing.jaxpr_to_text(thing, **settings))

_set_sampler(lambda *call: _sampling.start()(*call))

_hooks.set_evaluate(_evaluate)
_hooks.set_box(_box)
_hooks.set_operators(_find_operator)
_set_eager(_learning, _state, _eval_trace)
_expose(tree)

host_count, host_id, host_ids = process_count, process_index, process_indices

allow_f16_reductions = _knobs.allow_f16_reductions
array_garbage_collection_guard = _knobs.array_garbage_collection_guard
auto_pcast = _knobs.auto_pcast
check_tracer_leaks = _knobs.check_tracer_leaks
debug_infs = _knobs.debug_infs
debug_key_reuse = _knobs.debug_key_reuse
debug_nans = _knobs.debug_nans
default_device = _knobs.default_device
default_matmul_precision = _knobs.default_matmul_precision
default_prng_impl = _knobs.default_prng_impl
enable_checks = _knobs.enable_checks
enable_custom_prng = _knobs.enable_custom_prng
enable_x64 = _knobs.enable_x64
explain_cache_misses = _knobs.explain_cache_misses
jax2tf_associative_scan_reductions = _knobs.jax2tf_associative_scan_reductions
legacy_prng_key = _knobs.legacy_prng_key
log_compiles = _knobs.log_compiles
log_recompiles = _knobs.log_recompiles
log_transfers = _knobs.log_transfers
no_execution = _knobs.no_execution
no_tracing = _knobs.no_tracing
numpy_dtype_promotion = _knobs.numpy_dtype_promotion
numpy_rank_promotion = _knobs.numpy_rank_promotion
remove_size_one_mesh_axis_from_type = _knobs.remove_size_one_mesh_axis_from_type
safe_where_gradients = _knobs.safe_where_gradients
softmax_custom_jvp = _knobs.softmax_custom_jvp
thread_guard = _knobs.thread_guard
threefry_partitionable = _knobs.threefry_partitionable
transfer_guard_device_to_device = _knobs.transfer_guard_device_to_device
transfer_guard_device_to_host = _knobs.transfer_guard_device_to_host
transfer_guard_host_to_device = _knobs.transfer_guard_host_to_device
transfer_guard = _knobs.transfer_guard


def checking_leaks() -> _knobs.Setting:
    """Return a context manager in which tracers that leak from a function raise an error.

    Returns:
        Context manager, which sets ``check_tracer_leaks``.

    A tracer leaks if a traced function stores it where it outlives the call, such as in a global
    list.

    Example:
        >>> import weft
        >>> with weft.checking_leaks():
        ...     y = weft.jit(lambda x: x + 1)(1.0)
        >>> float(y)
        2.0
    """
    return _knobs.check_tracer_leaks(True)


_expose(_sys.modules[__name__])


__version__ = "0.1.0"
