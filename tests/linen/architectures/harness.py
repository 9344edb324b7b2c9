"""What tests of architectures share: recorded trees, and comparison."""

from pathlib import Path

import numpy as np

import weft.numpy as jnp

DATA = Path(__file__).parent / "data"


def recorded(name):
    """The arrays of a recorded file by name."""
    with np.load(DATA / f"{name}.npz") as file:
        return dict(file)


def subtree(record, prefix):
    """The arrays whose names begin with a prefix, as a nested dictionary."""
    result = {}
    for name, value in record.items():
        if name.startswith(f"{prefix}/"):
            *outer, last = name.split("/")[1:]
            place = result
            for part in outer:
                place = place.setdefault(part, {})
            place[last] = jnp.asarray(value)
    return result


def close(a, b, bound=1e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=bound, atol=bound)
