"""What losses refuse: dtypes and shapes that make no sense for them."""

import weft.numpy as jnp


def check_floats(name, **arrays):
    """Refuse arrays that are not of a float dtype."""
    for argument, array in arrays.items():
        dtype = jnp.result_type(array)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise TypeError(
                f"{name}: {argument} must be floats, got {dtype}; convert with "
                f"{argument}.astype(weft.numpy.float32)"
            )


def check_integers(name, **arrays):
    """Refuse arrays that are not of an integer dtype."""
    for argument, array in arrays.items():
        dtype = jnp.result_type(array)
        if not jnp.issubdtype(dtype, jnp.integer):
            raise TypeError(f"{name}: {argument} must be integers, one class each, got {dtype}")


def check_same_shape(name, **arrays):
    """Refuse arrays of different shapes."""
    shapes = {argument: jnp.shape(array) for argument, array in arrays.items()}
    if len(set(shapes.values())) > 1:
        found = ", ".join(f"{argument} {shape}" for argument, shape in shapes.items())
        raise ValueError(f"{name} takes arrays of one shape, got {found}")


def check_rank(name, rank, **arrays):
    """Refuse arrays of another number of dimensions."""
    for argument, array in arrays.items():
        if jnp.ndim(array) != rank:
            raise ValueError(
                f"{name}: {argument} must have {rank} dimensions, got the shape {jnp.shape(array)}"
            )
