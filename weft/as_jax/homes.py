"""Private modules of JAX in which public functions live, and weft's modules that have them.

Programs import public functions from where JAX defines them: ``from jax._src.random import
PRNGKey``. Each module here shows the public names of weft's modules beside it, in their order.
Single names that are private on JAX are in the table.
"""

from __future__ import annotations

LINES = """
jax._src.abstract_arrays               weft.core.avals
jax._src.ad_checkpoint                 weft.ad_checkpoint weft
jax._src.ad_util                       weft.interpreters.ad weft.extend.core.primitives
jax._src.api                           weft weft.tree_util
jax._src.api_util                      weft.api_util
jax._src.array                         weft weft.runtime.array weft.sharding
jax._src.basearray                     weft weft.typing
jax._src.callback                      weft weft.experimental weft.extend.core.primitives
jax._src.checkify                      weft.experimental.checkify
jax._src.config                        weft
jax._src.core                          weft.extend.core weft.core.jaxpr weft.core.avals weft
jax._src.custom_batching               weft.custom_batching
jax._src.custom_derivatives            weft.custom_derivatives
jax._src.debugging                     weft.debug
jax._src.distributed                   weft.distributed
jax._src.dlpack                        weft.dlpack
jax._src.dtypes                        weft.dtypes weft.numpy
jax._src.errors                        weft.errors
jax._src.flatten_util                  weft.flatten_util
jax._src.image.scale                   weft.image
jax._src.interpreters.ad               weft.interpreters.ad
jax._src.interpreters.batching         weft.interpreters.batching
jax._src.interpreters.mlir             weft.interpreters.mlir
jax._src.interpreters.partial_eval     weft.interpreters.partial_eval weft.extend.core
jax._src.interpreters.pxla             weft.sharding
jax._src.lax                           weft.lax
jax._src.lax.ann                       weft.lax
jax._src.lax.control_flow              weft.lax weft.extend.core.primitives
jax._src.lax.control_flow.conditionals weft.lax weft.extend.core.primitives
jax._src.lax.control_flow.loops        weft.lax weft.extend.core.primitives
jax._src.lax.control_flow.solves       weft.lax weft.extend.core.primitives
jax._src.lax.convolution               weft.lax
jax._src.lax.fft                       weft.lax
jax._src.lax.lax                       weft.lax weft.extend.core.primitives
jax._src.lax.linalg                    weft.lax.linalg weft.extend.core.primitives
jax._src.lax.parallel                  weft.lax weft.extend.core.primitives
jax._src.lax.slicing                   weft.lax weft.extend.core.primitives
jax._src.lax.special                   weft.lax weft.extend.core.primitives
jax._src.lax.windowed_reductions       weft.lax weft.extend.core.primitives
jax._src.layout                        weft.experimental.layout
jax._src.linear_util                   weft.extend.linear_util
jax._src.mesh                          weft.sharding
jax._src.mesh_utils                    weft.experimental.mesh_utils
jax._src.monitoring                    weft.monitoring
jax._src.named_sharding                weft.sharding
jax._src.nn.functions                  weft.nn
jax._src.nn.initializers               weft.nn.initializers
jax._src.numpy                         weft.numpy
jax._src.numpy.array_creation          weft.numpy
jax._src.numpy.einsum                  weft.numpy
jax._src.numpy.fft                     weft.numpy.fft
jax._src.numpy.index_tricks            weft.numpy
jax._src.numpy.indexing                weft.numpy
jax._src.numpy.lax_numpy               weft.numpy
jax._src.numpy.linalg                  weft.numpy.linalg
jax._src.numpy.polynomial              weft.numpy
jax._src.numpy.reductions              weft.numpy
jax._src.numpy.scalar_types            weft.numpy
jax._src.numpy.setops                  weft.numpy
jax._src.numpy.sorting                 weft.numpy
jax._src.numpy.tensor_contractions     weft.numpy
jax._src.numpy.ufunc_api               weft.numpy
jax._src.numpy.ufuncs                  weft.numpy
jax._src.numpy.util                    weft.numpy.promotion
jax._src.numpy.vectorize               weft.numpy
jax._src.numpy.window_functions        weft.numpy
jax._src.ops.scatter                   weft.ops
jax._src.ops.special                   weft.nn
jax._src.partition_spec                weft.sharding
jax._src.pjit                          weft weft.experimental.pjit weft.extend.core.primitives
jax._src.profiler                      weft.profiler
jax._src.random                        weft.random
jax._src.random.core                   weft.random
jax._src.random.prng                   weft.extend.random weft.extend.core.primitives
jax._src.scipy.linalg                  weft.scipy.linalg
jax._src.scipy.ndimage                 weft.scipy.ndimage
jax._src.scipy.optimize.minimize       weft.scipy.optimize
jax._src.scipy.signal                  weft.scipy.signal
jax._src.scipy.sparse.linalg           weft.scipy.sparse.linalg
jax._src.scipy.spatial.transform       weft.scipy.spatial.transform
jax._src.scipy.special                 weft.scipy.special
jax._src.scipy.stats                   weft.scipy.stats
jax._src.shard_map                     weft
jax._src.sharding                      weft.sharding
jax._src.sharding_impls                weft.sharding weft
jax._src.source_info_util              weft.extend.source_info_util
jax._src.stages                        weft.stages
jax._src.tree                          weft.tree
jax._src.tree_util                     weft.tree_util
jax._src.typing                        weft.typing weft
jax._src.util                          weft.as_jax.util
jax._src.xla_bridge                    weft.extend.backend weft
"""


def read(lines: str) -> dict[str, tuple[str, ...]]:
    """Modules of weft by module of JAX.

    >>> read("a.b  c d")
    {'a.b': ('c', 'd')}
    """
    rows = [line.split() for line in lines.split("\n") if line]
    return {row[0]: tuple(row[1:]) for row in rows}


HOMES = read(LINES)
