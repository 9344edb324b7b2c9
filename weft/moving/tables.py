"""What changes when a program moves from JAX to weft, as tables.

`docs/moving-from-jax.md` shows the first two; `python -m weft.moving` reads all of them.
"""

from __future__ import annotations

# A module of another library, and the module of weft that has its names.
MODULES = {
    "jax": "weft",
    "flax.linen": "weft.linen",
    "optax": "weft.optim",
    "dm_pix": "weft.image",
    "flax.training.train_state": "weft.train",
    "flax.training.dynamic_scale": "weft.train",
    "flax.training.early_stopping": "weft.train",
    "flax.training.lr_schedule": "weft.train.lr_schedule",
    "flax.training.common_utils": "weft.train.common_utils",
    "flax.jax_utils": "weft.train",
    "clu.metrics": "weft.train.metrics",
}

# Names that behave differently, and how.
DIFFERENT = {
    "jax.block_until_ready": "CPU calls are synchronous, so it returns at once there",
    "jax.Array.block_until_ready": "CPU calls are synchronous, so it returns at once there",
    "jax.export.export": "weft writes a format of its own; read StableHLO with from_stablehlo",
    "jax.experimental.layout": "every array is row-major: layouts are accepted and change nothing",
    "jax.experimental.serialize_executable": "it writes the program, and loading compiles it",
    "jax.experimental.compute_on": "it computes where its arguments are",
    "jax.experimental.topologies": "it describes attached devices and those of PJRT plugins",
    "jax.scipy.optimize.minimize": "it may take other steps to the same minimum",
    "jax.scipy.linalg.schur": "a Schur form is not unique: the order of eigenvalues may differ",
    "jax.custom_partitioning": "inside jit, the compiler partitions the function itself",
    "jax.experimental.custom_partitioning": "inside jit, the compiler partitions the function",
    "jax.profiler.start_server": "traces are taken by the program itself: use profiler.trace",
}

# Why a name is missing, by the beginning of its path.
MISSING = {
    "jax.experimental.pallas": "weft has no Pallas; write it with jax.numpy and lax: weft fuses"
    " operations into kernels by itself",
    "jax.experimental.mosaic": "weft has no Mosaic",
    "jax.experimental.jax2tf": "weft has no bridge to TensorFlow; use jax.export",
    "jax.lib.xla_bridge": "use jax.devices and jax.default_backend",
    "jax.lib.xla_client": "weft compiles without XLA",
    "jax.interpreters.xla": "weft compiles without XLA",
    "jax.tools": "tools of JAX's build",
    "jax._src": "private: JAX changes it without notice",
    "jaxlib": "weft needs no jaxlib",
}

# Variables of the environment, by their beginning, and what weft does with them.
VARIABLES = {
    "XLA_FLAGS": "weft has no XLA; for several CPU devices set WEFT_NUM_CPU_DEVICES or"
    " jax_num_cpu_devices",
    "XLA_PYTHON_CLIENT_": "weft takes memory as it needs it",
    "TF_": "weft needs no TensorFlow",
    "LIBTPU_INIT_ARGS": "it is read by libtpu, which weft calls for TPUs",
    "NCCL_": "it is read by NCCL, which weft calls",
    "CUDA_VISIBLE_DEVICES": "it is obeyed",
}

# Libraries that were run on weft under ``python -m weft.as_jax`` (docs/ecosystem.md).
LIBRARIES = frozenset(
    "blackjax chex clu diffrax distrax dynamiqs e3nn_jax equinox evosax flax gpjax grain haiku"
    " jax_md jaxlie jaxopt jaxtyping jraph jumanji keras kfac_jax lineax numpyro optax optimistix"
    " orbax quax rlax s2fft tinygp flaxformer aqt".split()
)
# Libraries that need JAX itself, by its C++ classes or its compiler.
NEED_JAX = {
    "jax_triton": "it registers kernels with XLA",
    "jax2torch": "it goes through JAX's own arrays; use weft.dlpack",
    "torch_xla": "it is another front end of XLA",
}
