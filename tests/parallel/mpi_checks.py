"""What holds in each of several processes; run under mpiexec, any process may fail."""

import contextlib
import sys

import numpy as np

import weft
import weft.numpy as jnp
from weft import P, lax
from weft.backends.cpu.calls.native import compile_program
from weft.experimental import multihost_utils as utils
from weft.runtime import spanning
from weft.sharding import Mesh, NamedSharding


@contextlib.contextmanager
def raises(kind, text):
    try:
        yield
    except kind as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
    else:
        raise AssertionError(f"nothing raised {kind.__name__}: {text}")


def before_the_start():
    assert not weft.distributed.is_initialized()
    with raises(ValueError, "and MPI says"):
        weft.distributed.initialize(num_processes=77)


def devices():
    count, index = weft.process_count(), weft.process_index()
    own = weft.local_devices()
    assert weft.distributed.is_initialized()
    assert weft.process_indices() == list(range(count)) and weft.device_count() == 4
    assert len(own) == weft.local_device_count() == 4 // count
    assert [d.id for d in weft.devices()] == list(range(4))
    assert all(d.process_index == index for d in own)
    assert weft.local_devices(0)[0].id == 0
    with raises(ValueError, "unknown process_index 9"):
        weft.local_devices(9)
    # what is not put anywhere is the process's own
    x = jnp.arange(3) + index
    assert x.devices() == {own[0]} and x.is_fully_addressable and x.tolist()[0] == index
    with raises(RuntimeError, "called already"):
        weft.distributed.initialize()


def arrays():
    index = weft.process_index()
    mesh = weft.make_mesh((4,), "i", axis_types=(weft.sharding.AxisType.Auto,))
    assert mesh.is_multi_process and len(mesh.local_devices) == weft.local_device_count()
    assert mesh.local_mesh.size == weft.local_device_count()
    sharding = NamedSharding(mesh, P("i"))
    whole = np.arange(24.0, dtype=np.float32).reshape(8, 3)
    x = weft.device_put(whole, sharding)
    assert not x.is_fully_addressable and not x.is_fully_replicated and x.committed
    assert (
        x.shape == (8, 3)
        and x.sharding == sharding
        and repr(x) == "Array(shape=(8, 3), dtype=float32)"
    )
    assert len(x.global_shards) == 4 and len(x.addressable_shards) == weft.local_device_count()
    for shard in x.addressable_shards:
        assert shard.device.process_index == index
        assert np.array_equal(shard.data, whole[shard.index])
    assert [s.data is None for s in x.global_shards] == [
        d.process_index != index for d in mesh.devices
    ]
    for read in (np.asarray, list, lambda x: x.tolist(), lambda x: x.item()):
        with raises(RuntimeError, "process_allgather(x, tiled=True)"):
            read(x)
    same = weft.device_put(whole, NamedSharding(mesh, P()))
    assert same.is_fully_replicated and np.array_equal(same, whole)
    away = next(d for d in weft.devices() if d.process_index != index)
    for value in (x, whole):
        with raises(ValueError, "a device of another process"):
            weft.device_put(value, away)
    with raises(AssertionError, "takes the same value in all of them"):
        weft.device_put(whole + index, sharding)
    y = weft.make_array_from_callback((8, 3), sharding, lambda i: whole[i])
    parts = [weft.device_put(whole[s.index], s.device) for s in x.addressable_shards]
    z = weft.make_array_from_single_device_arrays((8, 3), sharding, parts)
    n = 8 // weft.process_count()
    local = whole[n * index : n * (index + 1)]
    u = weft.make_array_from_process_local_data(sharding, local)
    v = weft.make_array_from_process_local_data(sharding, whole, (8, 3))
    for made in (y, z, u, v, weft.device_put(same, sharding), x.clone()):
        assert made.shape == (8, 3) and made.sharding == sharding
        assert np.array_equal(utils.process_allgather(made, tiled=True), whole)
    with raises(ValueError, "it would need the shape (8, 3)"):
        weft.make_array_from_process_local_data(sharding, local, (9, 3))
    # replicated in each process, of data that it gives whole
    w = weft.make_array_from_process_local_data(NamedSharding(mesh, P()), whole)
    assert np.array_equal(w, whole)
    with raises(ValueError, "are committed to different devices"):
        weft.jit(lambda x, y: x + y)(x, weft.device_put(whole, weft.local_devices()[0]))
    compiled = weft.jit(lambda x: x @ x.T).lower(x).compile()
    assert np.allclose(utils.process_allgather(compiled(x), tiled=True), whole @ whole.T)
    assert "all-gather of" in str(weft.explain(lambda x: x @ x.T)(x))
    x.delete()
    with raises(RuntimeError, "has been deleted"):
        x.addressable_shards


def same_bits():
    """Sums have the same bits in every process and every time."""
    mesh = Mesh(np.array(weft.devices()), ("i",))
    draw = np.random.RandomState(weft.process_index())
    n = 4 // weft.process_count()
    for size in (17, 100_003):
        for dtype in (np.float32, jnp.bfloat16):
            rows = draw.standard_normal((n, size)).astype(dtype)
            x = weft.make_array_from_process_local_data(NamedSharding(mesh, P("i")), rows)
            f = weft.jit(
                weft.shard_map(
                    lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P()
                )
            )
            found = [np.asarray(f(x)).tobytes() for _ in range(5)]
            assert len(set(found)) == 1
            everyone = utils.process_allgather(np.frombuffer(found[0], np.uint8))
            assert all(np.array_equal(row, everyone[0]) for row in everyone)


def groups():
    mesh = Mesh(np.array(weft.devices()), ("i",))
    x = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    given = weft.device_put(x, NamedSharding(mesh, P("i")))
    pairs = [[0, 2], [3, 1]]

    def run(f):
        made = weft.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
        return utils.process_allgather(weft.jit(made)(given), tiled=True)

    total = run(lambda x: lax.psum(x, "i", axis_index_groups=pairs))
    assert np.array_equal(total, x[[0, 1, 0, 1]] + x[[2, 3, 2, 3]])
    most = run(lambda x: lax.pmax(x, "i", axis_index_groups=pairs))
    assert np.array_equal(most, x[[2, 3, 2, 3]])
    every = run(lambda x: lax.all_gather(x, "i", axis_index_groups=pairs, tiled=True))
    assert np.array_equal(every.reshape(4, 2, 2), x[[[0, 2], [3, 1], [0, 2], [3, 1]]])
    parts = run(lambda x: lax.all_to_all(x, "i", 1, 1, axis_index_groups=pairs, tiled=True))
    assert np.array_equal(parts, [[0, 4], [7, 3], [1, 5], [6, 2]])


def agreement():
    index, count = weft.process_index(), weft.process_count()
    assert utils.process_allgather(np.array(index)).tolist() == list(range(count))
    tiled = utils.process_allgather({"a": np.full(2, index)}, tiled=True)
    assert tiled["a"].tolist() == sorted([*range(count)] * 2)
    assert utils.broadcast_one_to_all(np.array([index, 7])).tolist() == [0, 7]
    last = index == count - 1
    assert int(utils.broadcast_one_to_all(np.array(index), is_source=last)) == count - 1
    with raises(ValueError, "claim to be the source"):
        utils.broadcast_one_to_all(1, is_source=True)
    utils.sync_global_devices("here")
    with raises(AssertionError, "sync_global_devices('0')"):
        utils.sync_global_devices(str(index))
    utils.assert_equal({"a": np.ones(3)})
    with raises(AssertionError, "different values"):
        utils.assert_equal(np.array(index), "steps")
    mesh = Mesh(np.array(weft.devices()).reshape(count, -1), ("a", "b"))
    local = np.full((2, 3), index, np.float32)
    made = utils.host_local_array_to_global_array(local, mesh, P("a"))
    assert made.shape == (2 * count, 3)
    back = utils.global_array_to_host_local_array(made, mesh, P("a"))
    assert np.array_equal(back, local) and back.is_fully_addressable
    with utils.live_devices(weft.devices()) as alive:
        assert len(alive) == 4


def part_of_the_processes():
    """A mesh of some processes: the others go their own ways."""
    count, index = weft.process_count(), weft.process_index()
    some = [d for d in weft.devices() if d.process_index < max(1, count // 2) or count == 2]
    mesh = Mesh(np.array(some), ("i",))
    if any(d.process_index == index for d in some):
        rows = np.full((len(mesh.local_devices), 2), index + 1, np.float32)
        x = weft.make_array_from_process_local_data(NamedSharding(mesh, P("i")), rows)
        f = weft.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
        total = sum(d.process_index + 1 for d in some)
        for _ in range(3):
            assert np.array_equal(weft.jit(f)(x), np.full((1, 2), total))
    else:
        f = weft.shard_map(lambda x: lax.psum(x, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
        with raises(ValueError, f"process {index} has none of them"):
            weft.jit(f)(np.ones((len(some), 2), np.float32))


def backends():
    """Another backend runs the same programs."""
    mesh = Mesh(np.array(weft.devices()), ("i",))
    x = weft.device_put(np.arange(8, dtype=np.float32), NamedSharding(mesh, P("i")))
    f = weft.shard_map(lambda x: lax.psum(x * 2, "i"), mesh=mesh, in_specs=P("i"), out_specs=P())
    with weft.base.knobs.backend("reference"):
        assert np.array_equal(weft.jit(f)(x), np.arange(8.0).reshape(4, 2).sum(0) * 2)


def overlap():
    """What does not need a message runs while it is on its way."""
    mesh = Mesh(np.array(weft.devices()), ("i",))
    x = weft.device_put(np.ones((64, 1024), np.float32), NamedSharding(mesh, P("i")))

    def f(x):
        total = lax.psum(jnp.sin(x), "i")
        return total, jnp.cos(x @ x.T)

    mapped = weft.shard_map(f, mesh=mesh, in_specs=P("i"), out_specs=(P(), P("i")))
    closed = weft.make_jaxpr(mapped)(x)
    form = spanning.form_of(closed, [x], "f")
    nodes = compile_program(form.program).plan.nodes
    kinds = "".join({"Run": "r", "While": "w", "Branch": ""}[type(n).__name__] for n in nodes)
    # sines, a message begun, a product and cosines meanwhile; then waited for
    assert kinds.index("w") >= 4, kinds
    total, product = weft.jit(mapped)(x)
    n = 64 // 4
    assert np.allclose(total, np.full((n, 1024), 4 * np.sin(1.0)), atol=1e-5)
    assert product.shape == (64, n)


def main():
    before_the_start()
    weft.distributed.initialize()
    checks = (devices, arrays, same_bits, groups, agreement, part_of_the_processes, backends)
    for check in (*checks, overlap):
        check()
        utils.sync_global_devices(check.__name__)
    weft.distributed.shutdown()
    assert not weft.distributed.is_initialized() and weft.process_count() == 1
    assert float(jnp.ones(3).sum()) == 3.0
    print("all is well", file=sys.stdout, flush=True)


main()
