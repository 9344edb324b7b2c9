"""Kernels that differ in sizes alone are one in named sizes."""

import numpy as np

from weft.base.sizes import Size
from weft.compiler.passes.unify import apart, named
from weft.kernel.build import Builder
from weft.kernel.kernel import Buffer, Kernel, Loop, Store, affine, signature, statements

F32 = np.dtype(np.float32)


def kernel(rows, columns, factor=2.0, step=1):
    """Rows of an array times a number."""
    k = Builder()
    place = affine(0, {"i": columns * step, "j": step})
    value = k.mul(k.load(0, F32, place), k.const(factor, F32))
    size = rows * columns
    buffers = [Buffer(F32, size * step, "in"), Buffer(F32, size, "out")]
    store = Store(1, affine(0, {"i": columns, "j": 1}), value)
    return Kernel("k", buffers, ("i", rows), [Loop("j", columns, [store])])


def test_sizes_are_apart_from_what_a_kernel_does():
    key, sizes = apart(kernel(40, 100))
    assert apart(kernel(40, 100)) == (key, sizes)
    assert apart(kernel(50, 300))[0] == key and apart(kernel(50, 300))[1] != sizes
    assert apart(kernel(40, 100, 3.0))[0] != key
    assert apart(kernel(40, 100, step=2))[0] != key  # short distances are no sizes
    assert apart(kernel(40, 1))[0] != key
    assert apart(kernel(40, 100), (7,)) != apart(kernel(40, 100), (1,))


def test_all_are_instances_of_the_named_one():
    members = [kernel(40, 100), kernel(50, 300), kernel(70, 100)]
    made, (fact,), values = named(
        members[0], (9,), [apart(k, (n,))[1] for k, n in zip(members, (9, 8, 7), strict=True)]
    )
    assert [row.keys() for row in values] == [values[0].keys()] * 3
    assert [fact.at(row) for row in values] == [9, 8, 7]
    (loop, store) = statements(made.body)
    assert type(loop.extent) is Size and loop.extent is store.at.coefficient("i")
    assert store.at.coefficient("j") == 1
    for member, row in zip(members, values, strict=True):
        assert made.grid[1].at(row) == member.grid[1]
        assert [b.size.at(row) for b in made.buffers] == [b.size for b in member.buffers]
        assert loop.extent.at(row) == member.body[0].extent


def test_what_is_the_same_for_all_stays_a_number():
    members = [kernel(40, 100), kernel(50, 100)]
    made, _, values = named(members[0], (), [apart(k)[1] for k in members])
    assert made.body[0].extent == 100 and type(made.grid[1]) is Size
    assert len(values[0]) == 2  # rows and elements
    one, _, (row,) = named(members[0], (), [apart(members[0])[1]])
    assert signature(one) == signature(members[0]) and row == {}
