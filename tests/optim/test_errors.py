"""What is wrongly used is refused with words that say what is wrong and what to write."""

import pytest

import weft
import weft.numpy as jnp
import weft.optim as optim

PARAMS = {"w": jnp.ones((2, 3)), "b": jnp.ones(3)}
WRONG_GRADS = {
    "none": ({"w": jnp.ones((2, 3)), "b": None}, r"the gradient of \['b'\] is None, but"),
    "missing": ({"w": jnp.ones((2, 3))}, r"no gradient was given for \['b'\]"),
    "extra": ({**PARAMS, "c": jnp.ones(1)}, r"no parameter for the gradient of \['c'\]"),
    "container": ([jnp.ones((2, 3)), jnp.ones(3)], r"no gradient was given for \['b'\], \['w'\]"),
    "nested": ({"w": PARAMS, "b": jnp.ones(3)}, r"no gradient was given for \['w'\]"),
}
OPTIMISERS = {
    "adam": optim.adam(0.1),
    "adamw": optim.adamw(0.1),
    "momentum": optim.sgd(0.1, momentum=0.9),
    "rmsprop": optim.rmsprop(0.1),
    "adagrad": optim.adagrad(0.1),
    "lion": optim.lion(0.1),
    "adafactor": optim.adafactor(0.1),
    "novograd": optim.novograd(0.1),
    "lbfgs": optim.lbfgs(linesearch=None),
    "masked": optim.masked(optim.adam(0.1), True),
    "multi_steps": optim.MultiSteps(optim.sgd(0.1), 2),
}


@pytest.mark.parametrize("opt", OPTIMISERS.values(), ids=OPTIMISERS)
@pytest.mark.parametrize(("grads", "words"), WRONG_GRADS.values(), ids=WRONG_GRADS)
def test_gradients_of_another_tree(opt, grads, words):
    state = opt.init(PARAMS)
    with pytest.raises(ValueError, match=words):
        opt.update(grads, state, PARAMS)
    with pytest.raises(ValueError, match=words):
        weft.jit(opt.update)(grads, state, PARAMS)


def test_gradient_for_what_is_none():
    opt = optim.adam(0.1)
    state = opt.init({"w": jnp.ones(2), "b": None})
    with pytest.raises(
        ValueError, match=r"a gradient for \['b'\], but the parameter there was None"
    ):
        opt.update({"w": jnp.ones(2), "b": jnp.ones(3)}, state)


def test_none_in_both_is_left_out():
    opt = optim.adamw(0.1)
    params = {"w": jnp.ones(2), "b": None}
    updates, _ = opt.update(params, opt.init(params), params)
    assert updates["b"] is None
    assert optim.apply_updates(params, updates)["b"] is None


@pytest.mark.parametrize(
    ("opt", "name"),
    [
        (optim.adamw(0.1), "add_decayed_weights"),
        (optim.lamb(0.1), "scale_by_trust_ratio|add_decayed_weights"),
        (optim.adafactor(0.1), "scale_by_factored_rms"),
        (optim.novograd(0.1), "scale_by_novograd"),
        (optim.contrib.prodigy(), "prodigy"),
        (optim.contrib.madgrad(0.1), "scale_by_madgrad|add_decayed_weights"),
        (optim.keep_params_nonnegative(), "keep_params_nonnegative"),
    ],
)
def test_missing_params(opt, name):
    with pytest.raises(ValueError, match=rf"({name}) needs the current parameters: write update"):
        opt.update(PARAMS, opt.init(PARAMS))


def test_params_of_another_tree():
    opt = optim.adamw(0.1)
    with pytest.raises(ValueError, match=r"add_decayed_weights: .*no parameter .*\['b'\]"):
        opt.update(PARAMS, opt.init(PARAMS), {"w": PARAMS["w"]})


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: optim.adam("0.1"), "learning_rate must be a number, an array or a schedule"),
        (lambda: optim.sgd([0.1]), "learning_rate must be a number, an array or a schedule"),
        (lambda: optim.adam(0.1, b1=None), "scale_by_adam: b1 must be a number or an array"),
        (lambda: optim.adam(0.1, b2=lambda step: 0.9), "b2 must be .*; it takes no schedule"),
        (lambda: optim.rmsprop(0.1, decay="0.9"), "scale_by_rms: decay must be a number"),
        (lambda: optim.sgd(0.1, momentum="x"), "trace: decay must be a number"),
        (lambda: optim.adamw(0.1, weight_decay="x"), "weight_decay must be a number"),
        (lambda: optim.clip_by_global_norm(None), "max_norm must be a number"),
        (lambda: optim.scale_by_schedule(0.1), "takes a function of the step, got 0.1"),
        (lambda: optim.chain(optim.adam), "expected a gradient transformation.*optim.adam"),
        (lambda: optim.MultiSteps(optim.sgd(0.1), 2.5), "must be an int or a function"),
        (lambda: optim.contrib.galore(0.1, rank=1.5), "galore: rank must be an int, got 1.5"),
    ],
)
def test_wrong_hyperparameters_are_type_errors(make, words):
    with pytest.raises(TypeError, match=words):
        make()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: optim.scale_by_lion(mode="soft"), "mode must be one of .*hard.*, got 'soft'"),
        (lambda: optim.polyak_sgd(variant="x"), "variant must be 'sps' or 'sps\\+', got 'x'"),
        (lambda: optim.scale_by_lbfgs(0), "memory_size must be 1 or more, got 0"),
        (lambda: optim.lookahead(optim.sgd(0.1), 0, 0.5), "sync_period must be 1 or more, got 0"),
        (lambda: optim.MultiSteps(optim.sgd(0.1), 0), "every_k_schedule must be 1 or more, got 0"),
        (lambda: optim.cosine_decay_schedule(1.0, 0), "decay_steps must be positive, got 0"),
        (lambda: optim.contrib.reduce_on_plateau(1.5), "factor must be between 0 and 1, got 1.5"),
        (lambda: optim.contrib.muon(0.1, "other"), "ns_coeffs must be one of .*'dion'.*, got 'oth"),
        (
            lambda: optim.inject_hyperparams(optim.adam, static_args="beta1"),
            "names \\['beta1'\\], which adam does not take; it takes \\['learning_rate', 'b1'",
        ),
        (
            lambda: optim.partition({"a": optim.sgd(0.1)}, {"w": "a", "b": "z"}).init(PARAMS),
            "no transformation for the labels \\['z'\\]; it has \\['a'\\]",
        ),
        (
            lambda: optim.masked(optim.sgd(0.1), {"w": True}).init(PARAMS),
            "the mask's tree does not match the parameters",
        ),
        (
            lambda: optim.chain(optim.sgd(0.1)).update(PARAMS, ()),
            "got the state of another optimiser",
        ),
        (
            lambda: optim.lookahead(optim.sgd(0.1), 2, 0.5).update(PARAMS, None, PARAMS),
            "LookaheadParams.init_synced",
        ),
        (lambda: optim.apply_updates(PARAMS, {"w": 1.0}), "apply_updates: no gradient was given"),
        (lambda: optim.tree.norm(PARAMS, ord=3), "ord=None, 1, 2 and 'inf', got 3"),
        (lambda: optim.nnls(jnp.ones((2, 2)), jnp.ones(3), 5), "nnls takes a matrix A"),
    ],
)
def test_wrong_values_are_value_errors(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_names_in_trees_that_are_not_there_or_twice():
    with pytest.raises(KeyError, match=r"found more than once.*filtering="):
        optim.tree.get([{"a": 1}, {"a": 2}], "a")
    with pytest.raises(KeyError, match="there is nothing called 'b'"):
        optim.tree.set([{"a": 1}], b=2)


def test_losses_name_the_argument():
    with pytest.raises(TypeError, match="softmax_cross_entropy: logits must be floats, got int32"):
        optim.softmax_cross_entropy(jnp.ones((2, 2), int), jnp.ones((2, 2)))
    with pytest.raises(TypeError, match="labels must be integers, one class each, got float32"):
        optim.softmax_cross_entropy_with_integer_labels(jnp.ones((2, 2)), jnp.ones(2))
    with pytest.raises(ValueError, match=r"one shape, got predictions \(2,\), targets \(3,\)"):
        optim.squared_error(jnp.ones(2), jnp.ones(3))
