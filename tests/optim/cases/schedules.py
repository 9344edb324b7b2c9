"""Schedules at steps given as Python numbers and as arrays."""

import numpy as np

from tests.optim.harness import Case

STEPS = (0, 1, 2, 5, 9, 10, 11, 15, 20, 21, 30, 100)


def values(make, L):
    """The schedule at several steps; arrays give the dtypes."""
    schedule = make(L.optim)
    by_array = [schedule(L.jnp.asarray(step, "int32")) for step in STEPS]
    by_number = np.array([float(schedule(step)) for step in STEPS], L.dtype)
    return {"array": np.stack([np.asarray(x) for x in by_array]), "number": by_number}


SCHEDULES = {
    "constant": lambda o: o.constant_schedule(0.5),
    "polynomial": lambda o: o.polynomial_schedule(1.0, 0.1, 2, 20),
    "polynomial_begin": lambda o: o.polynomial_schedule(0.1, 1.0, 0.5, 10, transition_begin=5),
    "polynomial_none": lambda o: o.polynomial_schedule(0.1, 1.0, 2, 0),
    "polynomial_negative_begin": lambda o: o.polynomial_schedule(0.1, 1.0, 2, 10, -3),
    "linear": lambda o: o.linear_schedule(1.0, 0.0, 20),
    "piecewise_constant": lambda o: o.piecewise_constant_schedule(1.0, {5: 0.5, 10: 0.1}),
    "piecewise_constant_none": lambda o: o.piecewise_constant_schedule(1.0),
    "exponential": lambda o: o.exponential_decay(1.0, 5, 0.5),
    "exponential_all": lambda o: o.exponential_decay(1.0, 5, 0.5, 3, True, 0.2),
    "exponential_growth": lambda o: o.exponential_decay(1.0, 5, 2.0, end_value=3.0),
    "exponential_none": lambda o: o.exponential_decay(1.0, 5, 0.0),
    "cosine": lambda o: o.cosine_decay_schedule(1.0, 20),
    "cosine_all": lambda o: o.cosine_decay_schedule(2.0, 15, alpha=0.1, exponent=2.0),
    "piecewise_linear": lambda o: o.piecewise_interpolate_schedule(
        "linear", 1.0, {5: 2.0, 20: 0.1}
    ),
    "piecewise_cosine": lambda o: o.piecewise_interpolate_schedule(
        "cosine", 1.0, {5: 2.0, 20: 0.1}
    ),
    "linear_onecycle": lambda o: o.linear_onecycle_schedule(20, 1.0),
    "cosine_onecycle": lambda o: o.cosine_onecycle_schedule(20, 1.0),
    "warmup_constant": lambda o: o.warmup_constant_schedule(0.1, 1.0, 10),
    "warmup_cosine": lambda o: o.warmup_cosine_decay_schedule(0.0, 1.0, 5, 20, 0.1),
    "warmup_cosine_exponent": lambda o: o.warmup_cosine_decay_schedule(
        0.5, 2.0, 5, 20, exponent=2.0
    ),
    "warmup_exponential": lambda o: o.warmup_exponential_decay_schedule(
        0.0, 1.0, 5, 5, 0.5, 2, True, 0.1
    ),
    "sgdr": lambda o: o.sgdr_schedule(
        [
            {
                "init_value": 0.0,
                "peak_value": 1.0,
                "warmup_steps": 2,
                "decay_steps": 8,
                "end_value": 0.1,
            },
            {"init_value": 0.1, "peak_value": 0.5, "warmup_steps": 3, "decay_steps": 15},
        ]
    ),
    "join": lambda o: o.join_schedules(
        [o.constant_schedule(1.0), o.linear_schedule(1.0, 0.0, 10), o.constant_schedule(3.0)],
        [5, 12],
    ),
}
ERRORS = {
    "negative_scale": lambda o: o.piecewise_constant_schedule(1.0, {5: -0.5}),
    "negative_factor": lambda o: o.piecewise_interpolate_schedule("linear", 1.0, {5: -0.5}),
    "interpolation": lambda o: o.piecewise_interpolate_schedule("cubic", 1.0, {5: 0.5}),
    "cosine_steps": lambda o: o.cosine_decay_schedule(1.0, 0),
    "warmup_steps": lambda o: o.warmup_cosine_decay_schedule(0.0, 1.0, 20, 10),
    "linear_onecycle_steps": lambda o: o.linear_onecycle_schedule(0, 1.0),
    "cosine_onecycle_steps": lambda o: o.cosine_onecycle_schedule(-1, 1.0),
}
# Optax takes the fraction of steps in float32, with 64-bit numbers too.
SINGLE = ("cosine_onecycle", "piecewise_cosine")
CASES = [
    Case(name, lambda L, make=make: values(make, L), x64, 1e-6 if name in SINGLE else 0)
    for x64 in (False, True)
    for name, make in SCHEDULES.items()
] + [Case(f"error_{name}", lambda L, make=make: make(L.optim)) for name, make in ERRORS.items()]
