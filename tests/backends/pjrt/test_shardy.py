"""Programs over several devices in the form of Shardy."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import export, lax
from weft.backends.pjrt.program import device_options
from weft.base.knobs import use_shardy_partitioner
from weft.sharding import AbstractMesh, NamedSharding
from weft.sharding import PartitionSpec as P

MESH = AbstractMesh((2, 2), ("a", "b"))
X = np.arange(32, dtype=np.float32).reshape(8, 4) / 7


def over(spec, shape=(8, 4), mesh=MESH):
    return weft.ShapeDtypeStruct(shape, "float32", sharding=NamedSharding(mesh, spec))


def collectives(x):
    """Every collective, in a region over both axes of the mesh."""

    def part(x):
        return (
            lax.psum(x, "a"),
            lax.all_gather(x, "b"),
            lax.ppermute(x, "a", [(0, 1), (1, 0)]),
            lax.axis_index("b")[None],
            lax.psum_scatter(x, "a", tiled=True),
            lax.all_to_all(x, "a", 0, 0, tiled=True),
            lax.pmax(x, ("a", "b")),
        )

    outs = (P(None, "b"), P(None, "a"), P("a", "b"), P("b"), P("a", "b"), P("a", "b"), P())
    return weft.shard_map(part, mesh=MESH, in_specs=P("a", "b"), out_specs=outs, check_vma=False)(x)


def nested(x):
    inner = weft.shard_map(
        lambda y: lax.psum(y, "b"), in_specs=P(None, "b"), out_specs=P(None, None),
        axis_names={"b"}, check_vma=False,
    )  # fmt: skip
    return weft.shard_map(
        lambda x: 2 * inner(x), mesh=MESH, in_specs=P("a"), out_specs=P("a"),
        axis_names={"a"}, check_vma=False,
    )(x)  # fmt: skip


def constrained(x):
    free = P("b", P.UNCONSTRAINED)
    return lax.with_sharding_constraint(jnp.tanh(x) @ x.T, NamedSharding(MESH, free)).sum(0)


def text_of(f, *args):
    with use_shardy_partitioner(True):
        return weft.jit(f).lower(*args).as_text()


@pytest.mark.parametrize("f", [collectives, constrained])
def test_modules_are_read_again(f):
    """The module, read again, gives what the function gives; one device computes all parts."""
    text = text_of(f, over(P("a", "b")))
    assert "custom_call" not in text and "mhlo.sharding" not in text
    with pytest.warns(UserWarning, match="shardings of the StableHLO module"):
        found = export.from_stablehlo(text)(X)
    if f is constrained:
        np.testing.assert_allclose(found[0], (np.tanh(X) @ X.T).sum(0), rtol=1e-5)
        return
    top, bottom = X[:4], X[4:]
    blocks = [X[i : i + 4, j : j + 2] for i in (0, 4) for j in (0, 2)]
    expected = (
        top + bottom,
        np.stack([X[:, :2], X[:, 2:]]),
        np.concatenate([bottom, top]),
        np.array([0, 1]),
        top + bottom,
        np.concatenate([X[:2], X[4:6], X[2:4], X[6:]]),
        np.max(blocks, 0),
    )
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_how_shardings_are_written():
    text = text_of(constrained, over(P("a", "b")))
    assert 'sdy.mesh @mesh = <["a"=2, "b"=2]>' in text
    assert '%arg0: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}, {"b"}]>}' in text
    assert 'sharding = #sdy.sharding<@mesh, [{"b"}, {?}]>' in text
    text = text_of(nested, over(P("a")))
    assert 'manual_axes = #sdy<manual_axes{"a"}>' in text and text.count('manual_axes{"b"}') == 1
    assert '[<@mesh, [{"a", ?}, {?}]>]' in text
    turned = AbstractMesh((4,), ("c",))
    text = text_of(lambda x, y: x + y, over(P("a")), over(P("c"), mesh=turned))
    assert 'sdy.mesh @mesh_0 = <["c"=4]>' in text and '@mesh_0, [{"c"}, {}]' in text


def test_the_form_is_a_setting():
    f = weft.jit(lambda x: lax.with_sharding_constraint(x * 2, NamedSharding(MESH, P("b"))))
    text = f.lower(over(P("a"))).as_text()
    assert "mhlo.sharding" not in text and "sdy.sharding_constraint" in text
    with use_shardy_partitioner(False):
        before = f.lower(over(P("a"))).as_text()
    assert "mhlo.sharding" in before and "sdy." not in before
    assert f.lower(over(P("a"))).as_text() == text
    plain, divided = device_options([0, 1], True), device_options([0, 1], True, None, text)
    assert b"\x98\x01\x01" in divided and b"\x98\x01\x01" not in plain
