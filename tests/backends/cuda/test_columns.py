"""Reductions of columns as text for GPUs, run on the host."""

import re

import numpy as np
import pytest

import weft
from tests.backends.cuda import emulation, planned
from tests.backends.cuda.emulation import Native, hosted
from tests.backends.cuda.test_ptx import kernels_of
from weft import numpy as jnp
from weft.backends.cuda import assemble, driver, ptx
from weft.backends.cuda import schedule as schedules
from weft.backends.cuda.chain import Chain, copied
from weft.backends.cuda.schedule import schedule
from weft.backends.cuda.text.render import render
from weft.kernel.kernel import Reduce, Store, statements
from weft.kernel.run import run_kernel


# What kernels call, by the words of the host.
def launch(part, arrays):
    run_text(part, arrays, render(part))


def run_text(part, arrays, text=None):
    """The text of a kernel, or of several that are one launch, run by threads of the host."""
    text = hosted(text or render(part))
    values = [a.ctypes.data if isinstance(a, np.ndarray) else a for a in arrays]
    last = part.pieces[-1].schedule if hasattr(part, "pieces") else part
    if getattr(last, "cluster", 0):
        run_clusters(text, last, values)
    else:
        Native(text).launch(part.blocks, part.block_threads, values)


def run_clusters(text, part, values):
    """The blocks of a cluster at a time, each with memory of its own that others read."""
    shared = r"^(@(?!room_)\w+) = internal addrspace\(3\) global"
    text = re.sub(shared, r"\1 = addrspace(3) global", text, flags=re.MULTILINE)
    rooms = [
        (name, int(size) * (4 if kind == "float" else 1))
        for name, size, kind in re.findall(
            r"^@(\w*all\d+|kept\d+) = addrspace\(3\) global \[(\d+) x (\w+)\]", text, re.MULTILINE
        )
    ]
    dynamic = copied(part) if isinstance(part, Chain) else 0
    natives = [Native(text, dynamic) for _ in range(part.cluster)]
    places = [{n.engine.get_global_value_address(x): s for x, s in rooms} for n in natives]
    for first in range(0, part.blocks, part.cluster):
        emulation.cluster = emulation.Cluster(places, part.block_threads)
        numbered = enumerate(natives, first)
        running = [n.start(i, part.blocks, part.block_threads, values) for i, n in numbered]
        for workers in running:
            emulation.finish(workers)
    emulation.cluster = None


def check(fun, *args, early=False):
    """Kernels of a function, those that reduce columns by their text; how they are scheduled."""
    rng, found = np.random.default_rng(0), []
    for kernel in kernels_of(fun, *args):
        outside = [b for b in kernel.buffers if b.role != "row"]
        whole = [rng.normal(size=b.size).astype(b.dtype) for b in outside]
        parts, scratch = schedule(kernel, early=early)
        pieces = [b.copy() for b in whole] + [np.zeros(b.size, b.dtype) for b in scratch]
        run_kernel(kernel, whole)
        for part in parts:
            arrays = [pieces[i] for i in part.buffers]
            if part.rows or part.group > 1:
                launch(part, arrays)
            else:
                run_kernel(part.kernel, arrays)
        found += parts
        for b, x, y in zip(outside, whole, pieces, strict=False):
            if b.role == "out":
                np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-3)
    return found


@pytest.mark.parametrize(
    "fun, shape",
    [
        (lambda w: w.sum(0), (256, 32)),
        (lambda w: (w.sum(0), (w * w).sum(0) * 2 + 1), (512, 32)),
        (lambda w: jnp.any(w > 2, axis=0), (256, 64)),
        (lambda w: w.sum(1), (2, 128, 16)),
    ],
    ids="sum two any batch".split(),
)
def test_blocks_have_all_rows_of_some_columns(fun, shape):
    (part,) = [p for p in check(fun, jnp.ones(shape)) if p.rows]
    assert part.shares and part.columns and part.blocks == part.iterations // part.columns


def test_narrow_columns_are_read_sixteen_bytes_at_a_time():
    x, w = jnp.ones((1024,)), jnp.ones((1024, 32), jnp.bfloat16)
    (part,) = check(lambda x, w: (x[:, None] * w.astype(np.float32)).sum(0), x, w)
    assert part.vector == 8 and part.columns == 16 and part.rows == 4


def test_few_blocks_have_more_threads():
    x, w = jnp.ones((4096,)), jnp.ones((4096, 64), jnp.bfloat16)
    fun = lambda x, w: (x[:, None] * w.astype(np.float32)).sum(0)
    (kernel,) = kernels_of(fun, x, w)
    (part,) = schedule(kernel).parts
    assert (part.threads, part.columns, part.rows, part.blocks) == (1024, 16, 8, 4)
    made = ptx.assemble(render(part))
    assert ".maxntid 1024" in made and ".minnctapersm 1" in made


def test_a_matrix_that_is_read_once_is_prefetched():
    x, w = jnp.ones((1024,)), jnp.ones((1024, 32), jnp.bfloat16)
    (part,) = check(lambda x, w: (x[:, None] * w.astype(np.float32)).sum(0), x, w)
    made = ptx.assemble(render(part))
    assert made.count("prefetch.global.L2") == 1
    assert made.index("prefetch.global.L2") < made.index("griddepcontrol.wait")
    (other,) = check(lambda w: (w * w[:, ::-1]).sum(0), jnp.ones((512, 32)))
    assert "prefetch" not in str(render(other))


@pytest.mark.parametrize(
    "rows, columns, cluster, dtype",
    [(512, 64, 4, jnp.bfloat16), (256, 128, 2, np.float32), (128, 64, 1, np.float32)],
    ids=["bf16", "f32", "one block"],
)
def test_clusters_share_columns_that_are_copied_early(rows, columns, cluster, dtype, monkeypatch):
    monkeypatch.setattr(schedules, "ENOUGH_CLUSTER_BLOCKS", columns // 64 * cluster)
    x, w = jnp.ones((rows,)), jnp.ones((rows, columns), dtype)
    fun = lambda x, w: jnp.tanh((x[:, None] * w.astype(np.float32)).sum(0)) + x[:1]
    (part,) = check(fun, x, w, early=True)
    assert part.cluster == cluster and part.blocks == cluster * columns // part.columns
    made = ptx.assemble(render(part))
    assert made.index("cp.async.cg") < made.index("griddepcontrol.wait")
    assert (f".reqnctapercluster {cluster}, 1, 1" in made) == (cluster > 1)
    assert made.count("cp.async.cg") == part.rows


@pytest.mark.skipif(driver.count() == 0, reason="no NVIDIA GPU on this machine")
@pytest.mark.parametrize("dtype", [jnp.bfloat16, np.float32])
def test_rows_through_matrices_on_a_gpu(dtype):
    """Products that follow each other, of matrices that clusters of one to eight blocks share."""
    sizes = [(1024, 3072), (3072, 1024), (1024, 1024), (1024, 4096), (4096, 64), (64, 256)]
    rng = np.random.default_rng(0)
    matrices = [(rng.normal(size=s) / s[0] ** 0.5).astype(dtype) for s in sizes]

    def fun(x, matrices):
        for w in matrices:
            x = jnp.tanh((x[:, None] * w).sum(0, dtype=np.float32)).astype(dtype)
        return x

    x = rng.normal(size=1024).astype(dtype)
    want = np.asarray(fun(x, matrices), np.float32)
    gpu = weft.devices("cuda")[0]
    args = weft.device_put((x, matrices), gpu)
    step = weft.jit(fun)
    for _ in range(3):
        np.testing.assert_allclose(np.asarray(step(*args), np.float32), want, rtol=0.05, atol=0.05)


def test_columns_that_share_memory_are_not_copied():
    (other,) = check(lambda w: (w * w[:, ::-1]).sum(0), jnp.ones((512, 32)), early=True)
    assert not other.cluster


@pytest.mark.parametrize("rows", [1000, 1023])
def test_threads_have_pieces_of_some_columns(rows):
    parts = check(lambda x: ((x - x[:, :1]) ** 2).sum(0), jnp.ones((rows, 40)))
    assert [p.rows for p in parts] == [4, 0]


def test_the_longest_of_several_loops_is_split():
    x, w = jnp.ones((3, 1000, 40)), jnp.ones((1000, 40))
    first, _ = check(lambda x, w: (x * w).sum((0, 1)), x, w)
    assert first.iterations == 40 * 91  # pieces of 11 of the thousand


def test_loops_inside_of_loops_are_split_as_well():
    x, y = jnp.ones((18, 21, 24, 40)), jnp.ones((18, 20, 22, 40))
    fun = lambda x, y: ((x[:, 1:, 1:-1] * y).sum((0, 1, 2)), (x[:, 1:, 1:-1] + y).sum((0, 1, 2)))
    first, _ = check(fun, x, y)
    # each of 22 iterations in 10 pieces
    assert [n for _, n in first.kernel.axes] == [22, 10, 40]


def test_products_of_vectors_are_one_kernel():
    class Target(weft.backends.cuda.program.Cuda):
        def keeps(self, eqn):
            return True

    shapes = [(1024,), (1024, 512), (512,)]
    fun = lambda x, w, b: weft.nn.relu(x @ w + b)
    closed = weft.make_jaxpr(fun)(*(weft.ShapeDtypeStruct(s, jnp.bfloat16) for s in shapes))
    nodes = weft.compiler.plan.Planner(Target()).program(closed).nodes
    (node,) = nodes
    (part,) = schedule(node.kernel).parts
    assert part.columns == 16 and part.blocks == 32


def test_short_rows_have_a_warp_each(monkeypatch):
    monkeypatch.setattr(schedules, "ENOUGH_BLOCKS", 2)
    (part,) = check(lambda x: (x * 2).sum(1) + 1, jnp.ones((16, 64)))
    assert part.group == 8 and part.blocks == 2 and part.block_threads == 256


@pytest.mark.parametrize("shape", [(64, 64), (3, 32, 128)], ids=str)
def test_rows_that_share_an_operand_are_reduced_together(monkeypatch, shape):
    monkeypatch.setattr(schedules, "ENOUGH_BLOCKS", 2)
    monkeypatch.setattr(schedules, "ENOUGH_THREADS", 32)
    w, x = jnp.ones(shape), jnp.ones(shape[-1:])
    fun = lambda w, x: ((w * x).sum(-1) + 1, (w * 2).max(-1))
    (part,) = check(fun, w, x)
    assert part.iterations == np.prod(shape[:-1]) // schedules.SHARED_ROWS
    assert len([s for s in part.kernel.body if isinstance(s, Store)]) == 2 * schedules.SHARED_ROWS


@pytest.mark.parametrize("length", [5 * 32, 9 * 32 + 4], ids=str)
def test_long_rows_are_read_two_by_two(monkeypatch, length):
    monkeypatch.setattr(schedules, "MAX_THREADS", 32)
    monkeypatch.setattr(schedules, "MAX_TRIPS", 0)
    monkeypatch.setattr(schedules, "ENOUGH_BLOCKS", 1)
    (part,) = check(lambda x: jnp.exp(x - x.max(1, keepdims=True)), jnp.ones((8, 4 * length)))
    assert part.shares and not part.trips
    rows = np.random.default_rng(0).normal(size=(8, 4 * length)).astype(np.float32)
    found = np.zeros_like(rows)
    launch(part, [rows, found])
    np.testing.assert_allclose(found, np.exp(rows - rows.max(1, keepdims=True)), rtol=1e-5)


def test_columns_under_several_loops_are_split_by_all_their_rows():
    x, g = jnp.ones((64, 7, 7, 64)), jnp.ones((64, 64))
    first, second = check(lambda x, g: (x * g[:, None, None]).sum((0, 1, 2)), x, g)
    assert first.iterations == 64 * 64 and second.iterations == 64


@pytest.mark.parametrize(
    "fun, shapes",
    [
        (lambda x: x.sum(0), [(700, 32)]),
        (lambda x: (x.sum(0), x.max(0), (x > 2).any(0)), [(515, 16)]),
        (lambda x: (x * x).sum((0, 1)), [(37, 19, 64)]),
        (lambda x, m: ((x - m) ** 2).sum(1) * 2 + 1, [(2, 301, 128), (128,)]),
        (lambda x: x.sum(0), [(1024, 256)]),
        (lambda x: x.sum(0).astype(jnp.bfloat16), [(640, 64)]),
    ],
    ids="plain several nested batch exact bfloat16".split(),
)
def test_pieces_of_columns_are_combined_by_blocks(fun, shapes, monkeypatch):
    """A norm's sums over a batch left 10 MiB of partial ones, which took as long to read."""
    monkeypatch.setattr(schedules, "MAX_BLOCK_ELEMENTS", 0)
    monkeypatch.setattr(schedules, "PIECE_BLOCKS", 8)
    found = check(fun, *[np.ones(s, np.float32) for s in shapes])
    assert len(found) == 2
    assert found[0].columns == min(128, shapes[0][-1]) and found[0].blocks <= 8


def test_blocks_leave_little_of_long_columns():
    (kernel,) = kernels_of(
        lambda x: x.astype(np.float32).sum((0, 1, 2)),
        weft.ShapeDtypeStruct((18, 128, 128, 64), jnp.bfloat16),
    )
    parts, (scratch,) = schedule(kernel)
    assert scratch.size <= 64 * schedules.PIECE_BLOCKS
    text = ptx.assemble(render(parts[0]))
    assert "prefetch" not in text and "ld.shared" in text


def forces(p, mass):
    gap = p[None] - p[:, None]
    r2 = (gap * gap).sum(-1) + 1e-2
    return (gap * (mass[None] * r2**-1.5)[..., None]).sum(1)


PAIRS = {
    "two sums": (lambda p, q: ((p[:, None] * q[None]).sum(1), jnp.max(p[:, None] - q[None], 1)),
                 [(48, 2), (64, 2)]),
    "batch": (lambda p, q: jnp.sin(p[:, :, None] * q[:, None]).sum(2), [(2, 32, 4), (2, 56, 4)]),
    "scaled": (lambda p, q: (abs(p[:, None] - q[None]).sum(1) * p + 1) / 56, [(56, 3), (56, 3)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_sums_over_pairs_are_one_launch(name):
    """Sums over the middle axis of pairs x coordinates were split into two launches, and what does
    not depend on the coordinate was computed for each."""
    fun, shapes = PAIRS[name]
    check(fun, *[np.ones(s, np.float32) for s in shapes])
    places = shapes[0][-1]
    large = [s if len(s) == 3 else (20 * s[0], *s[1:]) for s in shapes]
    (kernel,) = kernels_of(fun, *[weft.ShapeDtypeStruct(s, np.float32) for s in large])
    (part,) = schedule(kernel).parts
    before, after = (
        [s for s in statements(k.body) if isinstance(s, Reduce)] for k in (kernel, part.kernel)
    )
    assert len(after) == places * len(before)


def test_forces_between_pairs_are_one_launch(monkeypatch):
    planned.install(monkeypatch)
    texts = []
    load = lambda module, *more: texts.append(str(module)) or planned._kernel(module, *more)
    monkeypatch.setattr(assemble, "load", load)
    given = [weft.ShapeDtypeStruct(s, np.float32) for s in [(2048, 3), (2048,)]]
    assert len(planned.planned(forces, *given).commands) == 1
    (text,) = texts
    assert "fma.f64" not in text and text.count("@llvm.sqrt.f32(float %") <= 16  # an element: one
    check(forces, *[np.ones(s, np.float32) for s in [(40, 3), (40,)]])


def test_large_arrays_are_read_in_their_own_order():
    (kernel,) = kernels_of(lambda x: x.sum(1), weft.ShapeDtypeStruct((64, 4096, 3), np.float32))
    for part in schedule(kernel).parts:
        assert len([s for s in statements(part.kernel.body) if isinstance(s, Reduce)]) == 1
