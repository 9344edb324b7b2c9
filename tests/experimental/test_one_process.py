"""Recurrent layers, notes for compilers, and agreement among processes of which there is one."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft.experimental import multihost_utils, pjit, rnn
from weft.experimental.array_serialization import serialization
from weft.experimental.xla_metadata import set_xla_metadata

# Of JAX 0.10.2: the first outputs of layers of the shapes below, in one and in both directions.
OUTPUTS = {
    False: [0.10617155, -0.08394754, 0.12342411, 0.23615058],
    True: [0.01105229, -0.08985498, -0.0536238, 0.06911265],
}


@pytest.mark.parametrize("both", [False, True])
def test_lstm_is_jaxs(both):
    key, sizes = weft.random.key(0), (3, 5, 2, both)
    weights = rnn.init_lstm_weight(key, *sizes)
    assert weights.size == rnn.get_num_params_in_lstm(*sizes)
    x = weft.random.normal(key, (2, 4, 3))
    h0 = jnp.full((2 * (1 + both), 2, 5), 0.1)
    run = lambda x, w: rnn.lstm(x, h0, 2 * h0, w, jnp.array([4, 3]), *sizes[:3], 0.0, both)
    y, h, c = weft.jit(run)(x, weights)
    assert y.shape == (2, 4, 5 * (1 + both)) and h.shape == c.shape == h0.shape
    assert np.allclose(y.ravel()[:4], OUTPUTS[both], atol=1e-6)
    assert not y[1, 3].any()
    swapped = rnn.swap_lstm_gates(weights, *sizes)
    assert np.allclose(np.sort(swapped), np.sort(weights))
    assert np.isfinite(weft.grad(lambda w: run(x, w)[0].sum())(weights)).all()
    with pytest.raises(ValueError, match="dropout"):
        rnn.lstm(x, h0, h0, weights, jnp.array([4, 3]), *sizes[:3], 0.5, both)


def test_one_process_agrees_with_itself():
    tree = {"a": jnp.ones(2), "b": 3}
    gathered = multihost_utils.process_allgather(tree)
    assert gathered["a"].shape == (1, 2) and gathered["b"].tolist() == [3]
    assert multihost_utils.process_allgather(tree["a"], tiled=True).shape == (2,)
    assert multihost_utils.broadcast_one_to_all(tree)["a"].tolist() == [1.0, 1.0]
    assert not multihost_utils.reached_preemption_sync_point(1)
    multihost_utils.sync_global_devices("here")
    multihost_utils.assert_equal(tree)
    with multihost_utils.live_devices(weft.devices()) as alive:
        assert alive == weft.devices()
    mesh = weft.make_mesh((1,), ("x",))
    spec = {"a": weft.P("x"), "b": None}
    whole = multihost_utils.host_local_array_to_global_array(tree, mesh, spec)
    assert whole["a"].tolist() == [1.0, 1.0]
    assert multihost_utils.global_array_to_host_local_array(whole, mesh, spec) is whole


def test_notes_for_compilers_change_nothing():
    with set_xla_metadata(group=1):
        y = weft.jit(lambda x: set_xla_metadata(x + 1, group=2))(1.0)
    assert float(y) == 2.0
    with pytest.raises(TypeError):
        set_xla_metadata(lambda: 0, group=1)
    assert float(pjit.pjit(lambda x: x + 1)(1.0)) == 2.0


def test_where_arrays_are_written():
    spec = serialization.get_tensorstore_spec("/there/w", arr=jnp.ones((2, 3)))
    assert spec["metadata"] == {"shape": [2, 3], "chunks": [2, 3]}
    assert not serialization.is_remote_storage(spec)
    assert serialization.is_remote_storage(serialization.get_tensorstore_spec("gs://b/w"))
    ocdbt = serialization.get_tensorstore_spec("/there/w", ocdbt=True)["kvstore"]
    assert ocdbt == {"driver": "ocdbt", "base": "file:///there", "path": "w"}
    with pytest.raises(ValueError, match="absolute path"):
        serialization.get_tensorstore_spec("w")


class Future:
    """Stands for tensorstore's word that something is on disk."""

    def __init__(self, error=None):
        self.error = error

    def result(self):
        if self.error is not None:
            raise self.error


def test_errors_of_writing_come_when_it_is_waited_for():
    manager, done = serialization.GlobalAsyncCheckpointManager(), []
    manager._begin([Future()], lambda: done.append(1))
    manager.wait_until_finished()
    assert done == [1]
    manager._begin([Future(OSError("full"))], lambda: done.append(2))
    with pytest.raises(OSError, match="full"):
        manager.wait_until_finished()
    assert done == [1]


def test_notes_are_kept_on_equations_and_shown_in_stablehlo():
    def f(x):
        with set_xla_metadata(outer=1, both="scope"):
            with set_xla_metadata(inner=True, outer=5):
                y = set_xla_metadata(jnp.sin(x), both='"value"', late=False)
        return y + 1

    sine, note, add = weft.make_jaxpr(f)(1.0).eqns
    assert sine.source_info.notes == (("both", "scope"), ("inner", True), ("outer", 5))
    assert note.params["xla_metadata_kvs"] == (("both", '"value"'), ("late", False))
    assert add.source_info.notes == ()
    lines = weft.jit(f).lower(1.0).as_text().splitlines()
    (line,) = [line for line in lines if "stablehlo.sine" in line]
    notes = r'both = "\"value\"", inner = "true", late = "false", outer = "5"'
    assert f"{{mhlo.frontend_attributes = {{{notes}}}}} : (tensor<f32>)" in line
    assert not any("frontend" in line for line in lines if "add" in line or "constant" in line)
    assert float(weft.jit(weft.grad(f))(0.0)) == 1.0
    assert weft.vmap(f)(jnp.zeros(2)).tolist() == [1.0, 1.0]

    @set_xla_metadata(step=1)
    def g(x):
        return weft.jit(lambda x: x * 3)(x)

    text = weft.jit(g).lower(1.0).as_text()
    assert text.count('{mhlo.frontend_attributes = {step = "1"}}') == 2  # the call and the product
    assert "frontend" not in weft.jit(lambda x: x * 3).lower(1.0).as_text()
