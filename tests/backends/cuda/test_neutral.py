"""Operations on a GPU without routines or libraries: the kernels that they are lowered to."""

import numpy as np
import pytest

import weft
from tests.backends.test_neutral import LOWERED, PROGRAMS, SLOW, X
from tests.backends.test_reference import check_samples
from tests.runtime import ways
from weft.backends.cuda import driver
from weft.backends.cuda.program import Cuda
from weft.core.registry import lookup

pytestmark = pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")


class Neutral(Cuda):
    """A GPU that does nothing but run kernels."""

    def keeps(self, eqn):
        return False


@pytest.mark.parametrize("prim", LOWERED)
def test_lowerings_are_right(prim):
    check_samples(Neutral(), prim, 2 if lookup(prim).kernels in SLOW else None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_without_routines(name):
    want = weft.tree.leaves(ways.interpreted(PROGRAMS[name], X))
    got = Neutral().compile(weft.make_jaxpr(PROGRAMS[name])(X))([X])
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
