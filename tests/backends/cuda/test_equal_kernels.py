"""Launches of one kernel: what planning asks of it is found out once, not at every launch."""

from collections import Counter

import numpy as np
import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.test_ptx import kernels_of
from tests.backends.cuda.test_rows import f32
from tests.backends.cuda.test_seams import heat
from weft import lax
from weft import numpy as jnp
from weft.backends.cuda import groups, loops, schedule
from weft.compiler import places
from weft.kernel.kernel import signature


def steps(count):
    return lambda x: lax.scan(lambda x, _: (heat(x), None), x, None, length=count)[0]


def counted(monkeypatch, count):
    """How often functions that look at all of a kernel are called for a loop of so many steps."""
    found = Counter()
    for owner, name in (
        *((schedule, "signature"), (loops, "stage"), (places, "_distances")),
        (groups, "statements"),
    ):
        real = getattr(owner, name)

        def noted(*given, real=real, name=name):
            found[name] += 1
            return real(*given)

        monkeypatch.setattr(owner, name, noted)
    weft.clear_caches()
    planned.planned(steps(count), f32(512, 512))
    monkeypatch.undo()
    return found


def test_more_steps_look_at_no_more_kernels(monkeypatch):
    found = []
    for count in (8, 16):
        planned.install(monkeypatch)
        found.append(counted(monkeypatch, count))
    few, many = found
    assert few["signature"] and few["stage"]
    assert {name: many[name] for name in ("signature", "stage", "statements")} == {
        name: few[name] for name in ("signature", "stage", "statements")
    }
    assert many["_distances"] <= 2.2 * few["_distances"]


@pytest.mark.parametrize("kind", ["equal", "other"])
def test_codes_are_equal_as_kernels_are(kind):
    (a,) = kernels_of(lambda x: jnp.sin(x) * 2, f32(40))
    (b,) = kernels_of(lambda x: jnp.sin(x) * (2 if kind == "equal" else 3), f32(40))
    one, two = schedule.code_of(a), schedule.code_of(b)
    assert (one == two) == (signature(a) == signature(b)) == (kind == "equal")
    assert hash(one) == hash(two) or one != two
    assert schedule.code_of(a) is one
    assert one != signature(a) and one != np.float32(0)
