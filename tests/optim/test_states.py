"""States that can be donated, and trees with None in them."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import optim
from weft.optim import contrib

PARAMS = {"a": jnp.ones((3, 2)), "b": jnp.ones(2)}


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.adafactor(0.1),
        lambda: optim.apply_if_finite(optim.sgd(0.1), 3),
        lambda: optim.scale_by_zoom_linesearch(5),
        lambda: contrib.momo(0.1),
        lambda: contrib.momo_adam(0.1),
        lambda: contrib.mechanize(optim.sgd(0.1)),
        lambda: contrib.reduce_on_plateau(),
        lambda: contrib.schedule_free(optim.sgd(0.1), 0.1),
    ],
    ids="adafactor finite zoom momo momo_adam mechanize plateau schedule_free".split(),
)
def test_no_array_stands_twice_in_a_state(make):
    leaves = weft.tree.leaves(make().init(PARAMS))
    assert len({id(leaf) for leaf in leaves}) == len(leaves)


def test_a_state_is_donated():
    tx = contrib.schedule_free(optim.sgd(0.1), 0.1)
    step = weft.jit(tx.update, donate_argnums=1)
    updates, _ = step(PARAMS, tx.init(PARAMS), PARAMS)
    np.testing.assert_allclose(updates["b"], [-0.1, -0.1], rtol=1e-6)


def test_parameters_of_none_stay_none():
    params = {"a": jnp.ones(2), "b": None}
    found = optim.apply_updates(params, {"a": jnp.ones(2), "b": jnp.ones(1)})
    assert found["a"].tolist() == [2.0, 2.0] and found["b"] is None
    with pytest.raises(ValueError, match=r"the gradient of \['b'\] is None"):
        optim.apply_updates(PARAMS, {"a": jnp.ones((3, 2)), "b": None})


def test_gradients_of_none_are_not_decayed():
    tx = optim.add_decayed_weights(0.1)
    grads, _ = tx.update({"a": jnp.ones((3, 2)), "b": None}, tx.init(PARAMS), PARAMS)
    np.testing.assert_allclose(grads["a"], np.full((3, 2), 1.1), rtol=1e-6)
    assert grads["b"] is None
    with pytest.raises(ValueError, match=r"there is a gradient for \['b'\]"):
        tx.update(PARAMS, tx.init(PARAMS), {"a": jnp.ones((3, 2)), "b": None})


def test_the_older_name_of_a_loss_warns():
    logs, targets = jnp.array([-1.0, -2.0]), jnp.array([0.3, 0.7])
    with pytest.warns(DeprecationWarning, match="generalized_kl_divergence"):
        older = optim.losses.convex_kl_divergence(logs, targets)
    assert older == optim.losses.generalized_kl_divergence(logs, targets)
