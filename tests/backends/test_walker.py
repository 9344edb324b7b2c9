"""The program walker: nodes of every kind, natively and by Python, on programs made by hand."""

import numpy as np
import pytest

from tests.backends.modules import module
from tests.runtime import ways
from weft import numpy as jnp
from weft.backends.cpu.assembly import Assembly, Python, Run
from weft.backends.cpu.calls import layout, native
from weft.backends.cpu.calls.slowly import Walk
from weft.backends.llvm.calls import walker
from weft.backends.llvm.native.machine import compile_many
from weft.core.avals import ShapedArray
from weft.kernel.program import Branch, Copy, For, Point, Result, Slot, Swap, While

# out[i] = a[i] + b[i] over a range of 64-bit integers
ADD = """
define void @add(ptr %buffers, i64 %start, i64 %stop) {
entry:
  %a = load ptr, ptr %buffers
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %out = load ptr, ptr %at2
  br label %head
head:
  %i = phi i64 [ %start, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %stop
  br i1 %more, label %body, label %end
body:
  %pa = getelementptr i64, ptr %a, i64 %i
  %pb = getelementptr i64, ptr %b, i64 %i
  %po = getelementptr i64, ptr %out, i64 %i
  %x = load i64, ptr %pa
  %y = load i64, ptr %pb
  %z = add i64 %x, %y
  store i64 %z, ptr %po
  %next = add i64 %i, 1
  br label %head
end:
  ret void
}
"""
# flag = a[0] < b[0]
LESS = """
define void @less(ptr %buffers, i64 %start, i64 %stop) {
  %a = load ptr, ptr %buffers
  %at1 = getelementptr ptr, ptr %buffers, i64 1
  %b = load ptr, ptr %at1
  %at2 = getelementptr ptr, ptr %buffers, i64 2
  %out = load ptr, ptr %at2
  %x = load i64, ptr %a
  %y = load i64, ptr %b
  %z = icmp slt i64 %x, %y
  %w = zext i1 %z to i8
  store i8 %w, ptr %out
  ret void
}
"""
CODES = [(module(ADD), "add"), (module(LESS), "less")]
LONG = np.dtype(np.int64)


@pytest.fixture(params=ways.WAYS)
def way(request, monkeypatch):
    ways.take(request.param, monkeypatch)
    return request.param


class Maker:
    """A program while it is written."""

    def __init__(self):
        self.slots, self.offsets, self.constants = [], [], []
        self.arena = 0

    def slot(self, role, size, what=None):
        self.slots.append(Slot(role, size, what))
        self.offsets.append(self.arena if role == "temp" else 0)
        if role == "temp":
            self.arena += (size + 63) // 64 * 64
        return len(self.slots) - 1

    def constant(self, *values):
        self.constants.append(np.array(values, np.int64))
        return self.slot("const", 8 * len(values), len(self.constants) - 1)

    def run(self, nodes, results, args, out_shapes, host=None):
        """The results of the nodes, called several times."""
        program = Assembly(
            self.slots, self.offsets, self.arena, tuple(nodes), CODES, self.constants, [], results
        )
        made = object.__new__(native.Executable)
        made.avals = [ShapedArray(x.shape, LONG) for x in args]
        made.out_avals = [ShapedArray(shape, LONG) for shape in out_shapes]
        made.plan, made.code, made.call, made.walked = program, compile_many(CODES), None, 0
        made.places = None
        made.host = host or native.Hosts(program, made.out_avals)
        made.flushes = True
        made.slowly = Walk(program, made.code, made.out_avals, made.host, made.flushes)
        first, *rest = [[np.asarray(x).tolist() for x in made(args)] for _ in range(3)]
        assert rest == [first, first]
        return first


def add(a, b, out, extent=1, chunk=1 << 20):
    return Run(0, (a, b, out), extent, chunk)


def test_launches_and_copies(way):
    m = Maker()
    n = 1000
    x, out, kept = m.slot("arg", 8 * n, 0), m.slot("out", 8 * n, 0), m.slot("temp", 8 * n)
    copy = m.slot("out", 8 * n, 1)
    nodes = [add(x, x, kept, n, 7), add(kept, x, out, n), Copy(copy, kept, 8 * n)]
    given = np.arange(n)
    results = [Result("slot", out), Result("slot", copy)]
    got = m.run(nodes, results, [given], [(n,), (n,)])
    assert got == [(given * 3).tolist(), (given * 2).tolist()]


def test_results_of_every_kind(way):
    m = Maker()
    x, c = m.slot("arg", 24, 0), m.constant(7, 8)
    out = m.slot("out", 24, 2)
    results = [Result("arg", 0), Result("const", 0), Result("slot", out), Result("same", 2)]
    assert m.slots[c].role == "const"
    given = np.array([1, 2, 3])
    got = m.run([add(x, x, out, 3)], results, [given], [(3,), (2,), (3,), (3,)])
    assert got == [[1, 2, 3], [7, 8], [2, 4, 6], [2, 4, 6]]


@pytest.mark.parametrize("size", [1, 4, 8])
@pytest.mark.parametrize("choice", [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1])
def test_branches(way, size, choice):
    m = Maker()
    x, out = m.slot("arg", 8, 0), m.slot("out", 8, 0)
    numbers = [m.constant(10), m.constant(20), m.constant(30)]
    regions = tuple((add(x, c, out),) for c in numbers) + ((add(x, x, out), Copy(out, x, 8)),)
    nodes = [Branch(x, size, regions)]
    (got,) = m.run(nodes, [Result("slot", out)], [np.array([choice])], [(1,)])
    seen = choice if size != 1 else choice & 255
    chosen = max(0, min(seen, 3))
    assert got == [choice + [10, 20, 30, 0][chosen]]


def test_an_empty_region(way):
    m = Maker()
    x, out = m.slot("arg", 8, 0), m.slot("out", 8, 0)
    nodes = [Copy(out, x, 8), Branch(x, 8, ((), (add(x, x, out),)))]
    assert m.run(nodes, [Result("slot", out)], [np.array([0])], [(1,)]) == [[0]]
    assert m.run(nodes, [Result("slot", out)], [np.array([1])], [(1,)]) == [[2]]


@pytest.mark.parametrize("limit", [0, 1, 2, 5, 100, 1001])
def test_while_loops(way, limit):
    m = Maker()
    x, out, one, flag = m.slot("arg", 8, 0), m.slot("out", 8, 0), m.constant(1), m.slot("temp", 1)
    first, second = m.slot("temp", 8), m.slot("temp", 8)
    now, after = m.slot("view", 8), m.slot("view", 8)
    zero = m.constant(0)
    loop = While((Run(1, (now, x, flag), 1, 1),), flag, (add(now, one, after), Swap(now, after)))
    nodes = [Point(now, first), Point(after, second), Copy(now, zero, 8), loop, Copy(out, now, 8)]
    assert m.run(nodes, [Result("slot", out)], [np.array([limit])], [(1,)]) == [[limit]]


@pytest.mark.parametrize("trips", [0, 1, 2, 7])
@pytest.mark.parametrize("reverse", [False, True])
def test_for_loops(way, trips, reverse):
    m = Maker()
    x, ys, out = m.slot("arg", 16 * trips, 0), m.slot("out", 16 * trips, 0), m.slot("out", 16, 1)
    other = m.slot("temp", 16)
    row, y, now, after = (m.slot("view", 16) for _ in range(4))
    zeros = m.constant(0, 0)
    phases = (out, other) if trips % 2 == 0 else (other, out)
    body = (add(now, row, after, 2), Copy(y, now, 16), Swap(now, after))
    nodes = [Point(now, phases[0]), Point(after, phases[1]), Copy(now, zeros, 16)]
    nodes.append(For(trips, reverse, ((row, x, 16), (y, ys, 16)), body))
    given = np.arange(2 * trips).reshape(trips, 2) + 1
    got = m.run(nodes, [Result("slot", ys), Result("slot", out)], [given], [(trips, 2), (2,)])
    rows = given[::-1] if reverse else given
    sums = np.concatenate([np.zeros((1, 2), int), np.cumsum(rows, 0)])
    before = sums[:-1][::-1] if reverse else sums[:-1]
    assert got == [before.tolist(), sums[-1].tolist()]


def test_loops_in_loops_in_branches(way):
    m = Maker()
    x, out, one = m.slot("arg", 8, 0), m.slot("out", 8, 0), m.constant(1)
    inner = For(5, False, (), (add(out, one, out),))
    outer = For(3, True, (), (inner, Branch(one, 8, ((), (add(out, x, out), inner)))))
    nodes = [Copy(out, x, 8), Branch(x, 8, ((outer,), (outer, outer)))]
    assert m.run(nodes, [Result("slot", out)], [np.array([0])], [(1,)]) == [[30]]
    assert m.run(nodes, [Result("slot", out)], [np.array([4])], [(1,)]) == [[4 + 2 * (30 + 12)]]


def test_calls_of_python(way):
    m = Maker()
    x, out = m.slot("arg", 8, 0), m.slot("out", 8, 0)
    seen = []

    def host(number, where):
        seen.append(number)
        assert where != 0
        if number == 3 and len(seen) > 24:
            raise KeyError("stop")

    nodes = [Copy(out, x, 8), For(4, False, (), (Python(2), Python(3)))]
    m.run(nodes, [Result("slot", out)], [np.array([1])], [(1,)], host)
    assert seen == [2, 3] * 12
    with pytest.raises(KeyError, match="stop"):
        m.run(nodes, [Result("slot", out)], [np.array([1])], [(1,)], host)
    assert len(seen) == 26


def test_tables_say_how_long_each_node_is():
    nodes = [
        Run(0, (4, 5), 100, 10),
        Copy(1, 2, 3),
        Branch(1, 8, ((Point(1, 2),), (), (Swap(1, 2), Python(3)))),
        While((Python(0),), 5, (Copy(1, 2, 3), Python(1))),
        For(6, True, ((1, 2, 3), (4, 5, 6)), (Python(2),)),
    ]
    words = layout.encode(nodes, [1234])
    at, found = 0, []
    while at < len(words):
        found.append(words[at])
        at += words[at + 1]
    assert at == len(words)
    expected = [walker.LAUNCH, walker.COPY, walker.BRANCH, walker.WHILE, walker.FOR]
    assert found == expected
    assert words[:8] == [walker.LAUNCH, 8, 1234, 100, 10, 2, 4, 5]


def test_a_deleted_operand_is_named_with_its_sizes():
    """Code for any size does not know them."""
    x = jnp.ones(3)
    x.delete()
    with pytest.raises(RuntimeError, match=r"float32\[3\] was donated"):
        native.Hosts(None, ())(-2, id(x))
