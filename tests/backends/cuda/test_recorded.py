"""On a GPU that is the default device: recorded answers of JAX, and random programs."""

import numpy as np
import pytest

import weft
from tests.backends.cuda import host_device
from tests.compose.programs import generate
from tests.compose.stacks import Stack
from tests.compose.test_random_programs import compare
from tests.oracle import harness
from tests.oracle.test_oracle import check, chunks, of_family
from weft.backends.cuda import driver
from weft.base import knobs

GPU = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")
pytestmark = pytest.mark.filterwarnings("ignore::weft.backends.cuda.commands.HostFallbackWarning")

# Of so many recorded cases one is run; random programs, and how many of them a test runs.
STEP = 24
COUNT, CHUNK = 2_000, 25


@pytest.fixture(scope="session")
def checker():
    return harness.Checker("weft")


@pytest.fixture(scope="session")
def tables():
    return {}


@GPU
@pytest.mark.parametrize(("name", "part", "count"), chunks())
def test_gpus_answer_as_jax_does(checker, tables, name, part, count):
    cases = of_family(tables, name)[part::count][part % STEP :: STEP]
    with weft.default_device(weft.devices("cuda")[0]):
        check(checker, cases)


def check_seed(seed):
    with weft.enable_x64(True):
        # on the host: a GPU's arrays would go there and back for each operation
        host = weft.default_device(weft.devices("cpu")[0])
        with host, knobs.scope(backend="reference"):
            program, args, traits = generate(seed)
            stack = Stack(seed, args, traits)
            stack.grow(lambda *xs: program(True, *xs))
            want = stack.build(lambda *xs: program(True, *xs), "slow")(*stack.args)
        fast = stack.build(lambda *xs: program(False, *xs), "fast")
        gpu = weft.devices("cuda")[0]
        try:
            found = weft.jit(fast)(*[weft.device_put(np.asarray(x), gpu) for x in stack.args])
            assert all(x.devices() == {gpu} for x in weft.tree.leaves(found))
            compare(found, want, f"jit of {stack.names()}")
        except Exception as error:
            raise AssertionError(f"seed {seed}, {stack.names()}\n{program}") from error


@GPU
@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
def test_random_programs(first):
    for seed in range(first, first + CHUNK):
        check_seed(seed)


def test_random_programs_on_a_gpu_made_of_the_host(monkeypatch):
    host_device.install_client(monkeypatch)
    for seed in range(5_000, 5_008):
        check_seed(seed)
