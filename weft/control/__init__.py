"""Primitives that carry a program: jit, branches, loops, custom derivatives."""

from weft.core import registry as _registry

# which file has which: they are loaded when first asked for
_registry.declare(
    __name__,
    {
        "callbacks": "pure_callback io_callback debug_callback debug_print inspect_sharding",
        "composite": "composite",
        "cond": "cond",
        "custom_batching": "custom_vmap_call",
        "custom_jvp": "custom_jvp_call",
        "custom_vjp": "custom_vjp_call custom_lin",
        "jit": "jit",
        "linear_call": "linear_call",
        "platform": "platform_index",
        "reductions": "reduce reduce_window select_and_scatter",
        "remat": "name remat2",
        "remat_opt": "remat_opt",
        "scan": "scan",
        "shard_map": "shard_map",
        "solves": "custom_linear_solve",
        "while_loop": "while",
    },
)
_registry.declare("weft.division.programs", {"process_program": "mesh_collective"})
