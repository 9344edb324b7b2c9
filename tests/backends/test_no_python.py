"""What compiled programs leave to Python: a list that may only become shorter."""

import numpy as np
import pytest

import weft
from tests.laws.checks import seed_of
from tests.samples import WIDE, all_samples
from weft import lax
from weft import numpy as jnp
from weft.backends.cpu.target import Cpu
from weft.compiler.plan import Unplannable

CALLS = "calls a function of the user's"
MAY_STAY = {
    **dict.fromkeys(
        "attention attention_backward decode_attention packed_attention"
        " packed_attention_backward".split(),
        "found only for targets that have kernels for it",
    ),
    **dict.fromkeys(
        ["process_all_gather", "process_all_to_all", "process_permute"],
        "messages of one process to itself, which no library carries",
    ),
    **dict.fromkeys(
        ["sum_to_parts", "parts_to_sum", "shared_to_parts", "parts_to_shared"],
        "gone from programs on sums before these are compiled",
    ),
    "pure_callback": CALLS,
    "io_callback": CALLS,
    "debug_callback": CALLS,
    "debug_print": CALLS,
    "check": "raises an error of Python's",
    "inspect_sharding": "shows something to a Python function",
    "platform_index": "asks the process where it runs",
    "dce_sink": "only keeps a value alive",
    "rng_uniform": "its numbers come from the state of the process",
}
SAMPLES = [s for s in all_samples() if s.axis is None]


def hosts(fun, *args):
    """Names of the primitives of a compiled function that run in Python."""
    closed = weft.make_jaxpr(fun)(*args)
    return {h.eqn.primitive.name for h in Cpu().assemble(closed).hosts}


def test_the_list_is_the_list():
    found = set()
    for sample in SAMPLES:
        for dtype in sample.dtypes:
            with weft.enable_x64(dtype in WIDE):
                args = sample.operands(dtype, seed_of(sample))
                try:
                    found |= hosts(sample.function(dtype), *args)
                except Unplannable:
                    continue
    assert not found - set(MAY_STAY), "left to Python without a reason"
    assert not set(MAY_STAY) - found, "no longer left to Python: shorten the list"


X = np.linspace(-2, 2, 300, dtype=np.float32)
Z = (X + 1j * X[::-1]).astype(np.complex64)
I = np.arange(300) % 7
PROGRAMS = {
    "searchsorted": lambda: hosts(lambda x: jnp.searchsorted(x, x), X),
    "histogram": lambda: hosts(lambda x: jnp.histogram(x, 10)[0], X),
    "scatter": lambda: hosts(lambda x: x.at[I].add(x), X.astype(jnp.bfloat16)),
    "complex": lambda: hosts(lambda z: jnp.sin(z) + jnp.sqrt(z) ** 2.5 + jnp.arctan(z), Z),
    "quarter": lambda: hosts(lambda x: x.astype(jnp.float8_e4m3fn).astype(jnp.float32) * 2, X),
    "trigamma": lambda: hosts(lambda x: lax.polygamma(np.float32(1), x), X),
    "igamma": lambda: hosts(lambda x: lax.igamma(np.float32(2), abs(x)), X),
    "bessel": lambda: hosts(lax.bessel_i0e, X),
    "variadic": lambda: hosts(
        lambda x: lax.reduce(
            (x, x), (np.float32(0), np.float32(1)), lambda a, b: (a[0] + b[0], a[1] * b[1]), (0,)
        ),
        X,
    ),
    "checkpoint": lambda: hosts(weft.grad(weft.checkpoint(lambda x: jnp.sin(x).sum())), X),
    "barrier": lambda: hosts(lambda x: lax.optimization_barrier((x + 1, x * 2)), X),
    "gamma": lambda: hosts(lambda a: weft.random.gamma(weft.random.key(0), a), abs(X) + 1),
    "apply": lambda: hosts(lambda x: x.at[I].apply(jnp.sin), X),
    "beta": lambda: hosts(lambda x: lax.betainc(np.float32(2), np.float32(3), abs(x) / 2), X),
    "rounding": lambda: hosts(lambda x: lax.reduce_precision(x, 8, 7), X),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_common_programs_run_without_python(name):
    assert PROGRAMS[name]() == set()
