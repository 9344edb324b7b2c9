"""Programs over several devices of a plugin: shardings, shard_map, pmap, collectives."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import lax
from weft.base.knobs import use_shardy_partitioner
from weft.sharding import AbstractMesh, Mesh, NamedSharding
from weft.sharding import PartitionSpec as P
from weft.stablehlo.sharded import Partitions

pytestmark = pytest.mark.filterwarnings("error::weft.base.errors.HostFallbackWarning")


@pytest.fixture(autouse=True, params=["Shardy", "GSPMD"])
def partitioner(request):
    """The form of the modules."""
    with use_shardy_partitioner(request.param == "Shardy"):
        yield request.param


@pytest.fixture
def mesh(plugin):
    return Mesh(np.array(plugin.places).reshape(2, 2), ("a", "b"))


X = np.arange(64.0, dtype="float32").reshape(8, 8) / 7


def test_arrays_are_divided(plugin, mesh):
    x = weft.device_put(X, NamedSharding(mesh, P("b", "a")))
    assert x.devices() == set(plugin.places)
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(np.asarray(shard.data), X[shard.index])
        assert shard.data.devices() == {shard.device}
    np.testing.assert_array_equal(np.asarray(x), X)
    moved = weft.device_put(x, NamedSharding(mesh, P(("a", "b"))))
    np.testing.assert_array_equal(np.asarray(moved), X)
    np.testing.assert_array_equal(np.asarray(moved.addressable_shards[3].data), X[6:])


@pytest.mark.parametrize("spec", [P("a", "b"), P(("b", "a")), P(None, "a"), P()])
def test_programs_on_divided_arrays(plugin, mesh, spec):
    x = weft.device_put(X, NamedSharding(mesh, spec))
    f = weft.jit(lambda x: (jnp.sin(x) @ x.T, x.sum(0), weft.nn.softmax(x)))
    for y, want in zip(f(x), weft.jit(f)(X), strict=True):
        assert y.devices() == set(plugin.places)
        np.testing.assert_allclose(np.asarray(y), want, rtol=1e-5, atol=1e-5)
    assert "LoadedExecutable_Execute" in plugin.calls
    grad = weft.grad(lambda x: (jnp.tanh(x) ** 2).sum())
    np.testing.assert_allclose(np.asarray(grad(x)), grad(X), rtol=1e-5, atol=1e-6)


def test_constraints_and_donation(plugin, mesh):
    where = NamedSharding(mesh, P("a", None))
    f = weft.jit(
        lambda x: lax.with_sharding_constraint(x * 2, where), donate_argnums=0, out_shardings=where
    )
    x = weft.device_put(X, where)
    y = f(x)
    assert x.is_deleted() and y.sharding == where
    np.testing.assert_array_equal(np.asarray(y), X * 2)


COLLECTIVES = {
    "psum": (lambda x: lax.psum(x, "a"), P(None, "b")),
    "psum both": (lambda x: lax.psum(x, ("a", "b")), P()),
    "pmax": (lambda x: lax.pmax(x, "b"), P("a")),
    "pmin": (lambda x: lax.pmin(x, ("b", "a")), P()),
    "pmean": (lambda x: lax.pmean(x, "b"), P("a")),
    "all_gather": (lambda x: lax.all_gather(x, "b", axis=1, tiled=True), P("a")),
    "all_gather new": (lambda x: lax.all_gather(x, "a", axis=1).sum(1), P(None, "b")),
    "gather both": (lambda x: lax.all_gather(x, ("b", "a"), tiled=True), P()),
    "scatter": (lambda x: lax.psum_scatter(x, "b", tiled=True), P(("a", "b"))),
    "scatter axis": (
        lambda x: lax.psum_scatter(
            x.reshape(2, 2, 4), "a", scatter_dimension=1
        ),
        P("a", "b"),
    ),
    "permute": (lambda x: lax.ppermute(x, "b", [(0, 1), (1, 0)]), P("a", "b")),
    "shift": (lambda x: lax.ppermute(x, "a", [(0, 1)]), P("a", "b")),
    "exchange": (lambda x: lax.all_to_all(x, "b", 1, 0, tiled=True), P("a", "b")),
    "exchange axis": (
        lambda x: lax.all_to_all(x.reshape(2, 2, 4), "a", 1, 0), P("a", None, "b"),
    ),
    "index": (
        lambda x: x * (1 + lax.axis_index("a") * 10 + lax.axis_index(("b", "a"))), P("a", "b"),
    ),
    "loop": (
        lambda x: lax.fori_loop(0, 3, lambda i, y: lax.ppermute(y, "a", [(0, 1), (1, 0)]) + i, x),
        P("a", "b"),
    ),
    "scan": (
        lambda x: lax.scan(lambda c, r: (c + lax.psum(r, "b"), c), jnp.zeros(4), x)[1],
        P("a", "b"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(plugin, mesh, name):
    body, out = COLLECTIVES[name]

    f = weft.shard_map(body, mesh=mesh, in_specs=P("a", "b"), out_specs=out, check_vma=False)
    y = weft.jit(f)(weft.device_put(X, NamedSharding(mesh, P("a", "b"))))
    assert y.devices() == set(plugin.places)
    np.testing.assert_allclose(np.asarray(y), _whole(body, out), rtol=1e-5, atol=1e-5)


def _whole(body, out):
    """The same by vmap, over named axes."""
    parts = X.reshape(2, 4, 2, 4).transpose(0, 2, 1, 3)
    found = np.asarray(weft.vmap(weft.vmap(body, axis_name="b"), axis_name="a")(parts))
    rank = found.ndim - 2
    for name, axis in (("a", 0), ("b", 1)):
        if not any(name in _axes(part) for part in out):
            found = np.take(found, [0], axis)
    dims = [_axes(part) for part in out] + [()] * (rank - len(out))
    order, sizes = [], []
    used = {n for part in dims for n in part}
    order += [i for i, n in enumerate("ab") if n not in used]
    for d, part in enumerate(dims):
        order += ["ab".index(n) for n in part] + [2 + d]
        sizes.append(found.shape[2 + d] * int(np.prod([found.shape["ab".index(n)] for n in part])))
    return found.transpose(order).reshape(sizes)


def _axes(part):
    return part if isinstance(part, tuple) else (part,) if part else ()


@pytest.mark.parametrize("first", "ab")
def test_regions_in_regions(plugin, mesh, first, partitioner):
    """A shard_map inside of another, over the other axis; with collectives along both."""
    second = "ab".replace(first, "")

    def inner(x):
        return lax.psum(x, second) * (1 + lax.axis_index(second)) + lax.axis_index(first)

    def outer(x):
        y = weft.shard_map(
            inner, in_specs=P(None, second), out_specs=P(second), axis_names={second}
        )(x * 2)
        return lax.pmax(y, first) + y

    f = weft.shard_map(outer, mesh=mesh, in_specs=P(first), out_specs=P(first), axis_names={first},
                       check_vma=False)  # fmt: skip
    x = weft.device_put(X, NamedSharding(mesh, P("a", "b")))
    y = weft.jit(f)(x)
    assert y.devices() == set(plugin.places)
    np.testing.assert_allclose(np.asarray(y), _nested(first), rtol=1e-6)
    text = weft.jit(f).lower(x).as_text()
    if partitioner == "GSPMD":
        assert "last_tile_dims={manual" in text and '"{manual}"' in text
    else:
        assert f'manual_axes{{"{first}"}}' in text and f'manual_axes{{"{second}"}}' in text


def _nested(first):
    """The same by hand: parts along the first axis, in each of them parts along the second."""
    rows = []
    for i, part in enumerate(X.reshape(2, 4, 8)):
        total = (part * 2).reshape(4, 2, 4).sum(1)
        rows.append(np.concatenate([total * (1 + j) + i for j in range(2)]))
    top = np.maximum(*rows)
    return np.concatenate([top + row for row in rows])


def test_pmap(plugin):
    f = weft.pmap(lambda x, y: x / lax.psum(x, "i") + y, axis_name="i", devices=plugin.places)
    x = np.arange(1.0, 9.0, dtype="float32").reshape(4, 2)
    y = f(x, x)
    assert y.devices() == set(plugin.places)
    np.testing.assert_allclose(np.asarray(y), x / x.sum(0) + x, rtol=1e-6)


def test_a_sharded_program_is_told_as_stablehlo(plugin, mesh, partitioner):
    x = weft.device_put(X, NamedSharding(mesh, P("a", "b")))
    text = weft.jit(lambda x: x @ x).lower(x).as_text()
    division = {"GSPMD": '"{devices=[2,2]<=[4]}"', "Shardy": '<@mesh, [{"a"}, {"b"}]>'}[partitioner]
    assert "mhlo.num_partitions = 4" in text and division in text
    g = weft.shard_map(lambda x: lax.psum(x, "a"), mesh=mesh, in_specs=P("a"), out_specs=P())
    told = weft.jit(g).lower(x).as_text()
    assert '"stablehlo.all_reduce"' in told and "[[0, 2], [1, 3]]" in told
    region = {"GSPMD": "SPMDFullToShardShape", "Shardy": "sdy.manual_computation"}[partitioner]
    assert region in told
    compiled = weft.jit(g).lower(x).compile()
    assert "stablehlo.all_reduce" in compiled.as_text()
    assert compiled.cost_analysis()["flops"] > 0


def test_shardings_as_xla_writes_them():
    mesh = AbstractMesh((2, 3, 4), ("x", "y", "z"))
    parts = Partitions(mesh)
    tell = lambda *spec: parts.text(NamedSharding(mesh, P(*spec)), 2)
    assert tell() == "{replicated}"
    assert tell("x") == "{devices=[2,1,12]<=[24] last_tile_dim_replicate}"
    assert tell("z") == "{devices=[4,1,6]<=[2,3,4]T(2,0,1) last_tile_dim_replicate}"
    assert tell(("z", "y"), "x") == "{devices=[12,2]<=[2,3,4]T(2,1,0)}"
    assert parts.manual_text(mesh, {"x", "y", "z"}, 2) == "{manual}"
    assert parts.manual_text(mesh, {"y"}, 1) == (
        "{devices=[1,3,8]<=[2,3,4]T(1,0,2) last_tile_dims={manual, replicated}}"
    )
