"""Tolerances of ``check_grads`` may be given by dtype."""

import numpy as np
import pytest

import weft.numpy as jnp
from weft.test_util import check_grads


def test_tolerances_by_dtype():
    check_grads(jnp.sin, (1.0,), 1, ["fwd", "rev"], {np.float32: 1e-2}, {np.float32: 1e-2})
    check_grads(jnp.sin, (np.float32(1.0),), 2, atol={"float32": 0.1, jnp.bfloat16: 1.0})


def test_the_tolerance_of_the_dtype_counts():
    with pytest.raises(AssertionError):
        check_grads(jnp.sin, (1.0,), 1, ["fwd"], {np.float32: 1e-9}, {np.float32: 1e-9})
    # one for another dtype leaves the default
    check_grads(jnp.sin, (1.0,), 1, ["fwd"], {np.float64: 1e-30}, {np.float64: 1e-30})
