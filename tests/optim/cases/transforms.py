"""Transformations that combine with optimisers, and wrong uses of them."""

import numpy as np

from tests.optim.cases.optimisers import decay_mask, halving, steps
from tests.optim.harness import Case


def labels(params):
    """Labels for `partition`."""
    return {"dense": "slow", "scale": ["fast"]}


def twice(L, tx):
    """A transformation before gradient descent."""
    return L.optim.chain(tx, L.optim.sgd(0.1))


def skipping(L):
    """`MultiSteps` that leaves out large gradients."""

    def skip(updates, step, params):
        return L.optim.skip_large_updates(updates, step, params, max_squared_norm=10.0)

    return L.optim.MultiSteps(L.optim.adam(0.1), 2, should_skip_update_fn=skip)


def injected(L):
    """Hyperparameters of all kinds in the state."""

    def make(learning_rate, b1, b2, weight_decay, mask, flag):
        assert flag is True
        return L.optim.adamw(learning_rate, b1, b2, weight_decay=weight_decay, mask=mask)

    return L.optim.inject_hyperparams(make, static_args="mask")(
        halving(L), np.float32(0.8), 0.9, 0.1, decay_mask, True
    )


T = {
    "adaptive_grad_clip": lambda L: twice(L, L.optim.adaptive_grad_clip(0.1)),
    "add_decayed_weights": lambda L: twice(L, L.optim.add_decayed_weights(0.1, decay_mask)),
    "add_noise": lambda L: twice(L, L.optim.add_noise(0.1, 0.5, key=1)),
    "apply_every": lambda L: twice(L, L.optim.apply_every(3)),
    "apply_if_finite": lambda L: L.optim.apply_if_finite(L.optim.adam(0.1), 3),
    "centralize": lambda L: twice(L, L.optim.centralize()),
    "chain": lambda L: L.optim.chain(L.optim.clip(1.0), L.optim.adam(0.1), L.optim.scale(0.5)),
    "clip": lambda L: twice(L, L.optim.clip(0.3)),
    "clip_by_block_rms": lambda L: twice(L, L.optim.clip_by_block_rms(0.3)),
    "clip_by_global_norm": lambda L: twice(L, L.optim.clip_by_global_norm(0.5)),
    "conditionally_mask": lambda L: L.optim.conditionally_mask(
        L.optim.adam(0.1), lambda s: s % 3 == 0
    ),
    "conditionally_transform": lambda L: L.optim.conditionally_transform(
        L.optim.adam(0.1), lambda s: s % 3 != 0
    ),
    "ema": lambda L: twice(L, L.optim.ema(0.9)),
    "ema_biased": lambda L: twice(L, L.optim.ema(0.9, debias=False, accumulator_dtype="float32")),
    "flatten": lambda L: L.optim.flatten(L.optim.adam(0.1)),
    "freeze": lambda L: twice(L, L.optim.freeze(decay_mask(None))),
    "identity": lambda L: L.optim.identity(),
    "inject": injected,
    "inject_sgd": lambda L: L.optim.inject_hyperparams(L.optim.sgd)(0.1, momentum=0.9),
    "keep_params_nonnegative": lambda L: L.optim.chain(
        L.optim.sgd(0.3), L.optim.keep_params_nonnegative()
    ),
    "masked": lambda L: L.optim.masked(L.optim.adam(0.1), decay_mask),
    "masked_tree": lambda L: L.optim.masked(
        L.optim.sgd(0.1, 0.9), {"dense": True, "scale": [False]}
    ),
    "monitor": lambda L: twice(
        L,
        L.optim.monitor(
            {"norm": L.optim.tree.norm, "average": L.optim.measure_with_ema(L.optim.tree.norm, 0.5)}
        ),
    ),
    "multi_steps": lambda L: L.optim.MultiSteps(L.optim.adam(0.1), 3),
    "multi_steps_sum": lambda L: L.optim.MultiSteps(
        L.optim.sgd(0.1, 0.9), lambda n: L.jnp.where(n < 2, 2, 4), use_grad_mean=False
    ),
    "multi_steps_skip": skipping,
    "multi_transform": lambda L: L.optim.multi_transform(
        {"fast": L.optim.sgd(0.3), "slow": L.optim.adam(0.1)}, labels
    ),
    "named_chain": lambda L: L.optim.named_chain(
        ("clip", L.optim.clip(0.5)), ("adam", L.optim.adam(0.1))
    ),
    "normalize_by_update_norm": lambda L: twice(L, L.optim.normalize_by_update_norm(0.5)),
    "partition": lambda L: L.optim.partition(
        {"fast": L.optim.sgd(0.3), "slow": L.optim.adam(0.1)}, labels(None)
    ),
    "scale": lambda L: L.optim.scale(-0.1),
    "scale_by_lion_smooth": lambda L: twice(
        L, L.optim.scale_by_lion(mode="smooth", smooth_beta=2.0)
    ),
    "scale_by_lion_refined": lambda L: twice(L, L.optim.scale_by_lion(mode="refined")),
    "scale_by_distance_over_gradients": lambda L: L.optim.chain(
        L.optim.scale_by_distance_over_gradients(), L.optim.scale(-1.0)
    ),
    "scale_by_param_block_norm": lambda L: twice(L, L.optim.scale_by_param_block_norm()),
    "scale_by_param_block_rms": lambda L: twice(L, L.optim.scale_by_param_block_rms()),
    "scale_by_schedule": lambda L: L.optim.chain(
        L.optim.scale_by_schedule(halving(L)), L.optim.scale(-1.0)
    ),
    "scale_by_trust_ratio": lambda L: twice(L, L.optim.scale_by_trust_ratio(0.1, 0.5, 1e-3)),
    "selective_transform": lambda L: L.optim.selective_transform(
        L.optim.adam(0.1), freeze_mask=decay_mask(None)
    ),
    "set_to_zero": lambda L: L.optim.set_to_zero(),
    "snapshot": lambda L: twice(L, L.optim.snapshot("norm", L.optim.tree.norm)),
    "stateless": lambda L: L.optim.stateless(
        lambda u, p: L.jax.tree.map(lambda u, p: -0.1 * (u + p), u, p)
    ),
    "stateless_with_tree_map": lambda L: L.optim.stateless_with_tree_map(
        lambda u, p: -0.1 * (u + p)
    ),
    "trace": lambda L: L.optim.chain(L.optim.trace(0.9, nesterov=True), L.optim.scale(-0.1)),
    "zero_nans": lambda L: twice(L, L.optim.zero_nans()),
}


def lookahead(L, reset):
    """Fast and slow parameters over 20 steps."""
    opt = L.optim.lookahead(L.optim.adam(0.1), 3, 0.5, reset_state=reset)
    params = L.optim.LookaheadParams.init_synced(L.tree())
    state = opt.init(params)
    for _ in range(20):
        grads = L.jax.tree.map(lambda p: 2 * p, params.fast)
        updates, state = opt.update(grads, state, params)
        params = L.optim.apply_updates(params, updates)
    return params, state


def not_finite(L, inner):
    """Steps with NaN and infinity among the gradients."""
    tx = inner(L)
    params = L.tree()
    state, updates = tx.init(params), []
    for step, bad in enumerate([0.0, np.nan, np.inf, 0.0, np.nan, np.nan, np.nan, np.nan, 0.0]):
        grads = L.jax.tree.map(lambda p, bad=bad, step=step: p + L.dtype(bad) * step, params)
        update, state = tx.update(grads, state, params)
        updates.append(update)
    return updates, state


OTHERS = {
    "lookahead": lambda L: lookahead(L, False),
    "lookahead_reset": lambda L: lookahead(L, True),
    "apply_if_finite_bad": lambda L: not_finite(
        L, lambda L: L.optim.apply_if_finite(L.optim.adam(0.1), 2)
    ),
    "zero_nans_bad": lambda L: not_finite(
        L, lambda L: L.optim.chain(L.optim.zero_nans(), L.optim.sgd(0.1))
    ),
    "multi_steps_bad": lambda L: not_finite(
        L,
        lambda L: L.optim.MultiSteps(
            L.optim.sgd(0.1), 2, should_skip_update_fn=L.optim.skip_not_finite
        ),
    ),
    "per_example_global_norm_clip": lambda L: L.optim.per_example_global_norm_clip(
        [L.array(np.random.RandomState(0).standard_normal((4, 3))), L.array(np.zeros((4, 2)))], 1.0
    ),
    "per_example_layer_norm_clip": lambda L: L.optim.per_example_layer_norm_clip(
        {
            "a": L.array(np.random.RandomState(0).standard_normal((4, 3, 2))),
            "b": L.array(np.ones((4, 2))),
        },
        1.0,
    ),
    "per_example_layer_norm_clip_sizes": lambda L: L.optim.per_example_layer_norm_clip(
        {
            "a": L.array(np.random.RandomState(0).standard_normal((4, 3, 2))),
            "b": L.array(np.ones((4, 2))),
        },
        1.0,
        False,
    ),
    "unitwise_norm": lambda L: [
        L.optim.transforms.unitwise_norm(L.array(np.random.RandomState(0).standard_normal(shape)))
        for shape in [(3,), (3, 2), (2, 3, 2), (1, 2, 2, 3), (1, 2, 1, 2, 3)]
    ],
    "apply_updates": lambda L: L.optim.apply_updates(L.tree(), L.tree(1)),
    "apply_updates_bf16": lambda L: L.optim.apply_updates(
        L.jnp.ones(3, "bfloat16"), L.array([1e-4, 1.0, -3.0])
    ),
    "incremental_update": lambda L: L.optim.incremental_update(L.tree(), L.tree(1), 0.1),
    "periodic_update": lambda L: [
        L.optim.periodic_update(L.tree(), L.tree(1), L.jnp.asarray(s), 3) for s in (5, 6)
    ],
    "safe_norm": lambda L: [
        L.jax.grad(lambda x: L.optim.safe_norm(x, 1e-3))(L.array(x))
        for x in ([0.0, 0.0], [3.0, 4.0])
    ],
    "safe_root_mean_squares": lambda L: [
        L.jax.value_and_grad(lambda x: L.optim.safe_root_mean_squares(x, 1e-3))(L.array(x))
        for x in ([0.0, 0.0], [3.0, 4.0])
    ],
    "safe_increment": lambda L: [
        L.optim.safe_increment(L.jnp.asarray(x, d))
        for x, d in [(3, "int32"), (2**31 - 1, "int32"), (127, "int8"), (1.5, "float32")]
    ],
    "complex_adam": lambda L: steps(
        lambda L: L.optim.adam(0.1),
        L,
        count=5,
        tree=lambda L: [
            L.jnp.asarray(np.array([1 + 2j, -0.5j], np.complex128 if L.x64 else np.complex64))
        ],
    ),
    "tuple_tree": lambda L: steps(
        lambda L: L.optim.adamw(0.1), L, count=3, tree=lambda L: (L.array([1.0]), None, [])
    ),
}


def update_with(L, make, grads=None, params="same"):
    """One update with what is wrong."""
    good = L.tree()
    opt = make(L.optim)
    return opt.update(
        good if grads is None else grads, opt.init(good), good if params == "same" else params
    )


ERRORS = {
    "no_params_adamw": lambda L: update_with(L, lambda o: o.adamw(0.1), params=None),
    "no_params_lamb": lambda L: update_with(L, lambda o: o.lamb(0.1), params=None),
    "no_params_adafactor": lambda L: update_with(L, lambda o: o.adafactor(0.1), params=None),
    "no_params_agc": lambda L: update_with(L, lambda o: o.adaptive_grad_clip(0.1), params=None),
    "no_params_nonnegative": lambda L: update_with(
        L, lambda o: o.keep_params_nonnegative(), params=None
    ),
    "no_params_block_norm": lambda L: update_with(
        L, lambda o: o.scale_by_param_block_norm(), params=None
    ),
    "tree_adam": lambda L: update_with(L, lambda o: o.adam(0.1), {"dense": L.tree()["dense"]}),
    "tree_sgd_momentum": lambda L: update_with(L, lambda o: o.sgd(0.1, 0.9), [1.0]),
    "tree_adamw_params": lambda L: update_with(L, lambda o: o.adamw(0.1), None, {"dense": 1.0}),
    "none_adam": lambda L: update_with(
        L, lambda o: o.adam(0.1), {"dense": L.tree()["dense"], "scale": [None]}
    ),
    "none_rmsprop": lambda L: update_with(
        L, lambda o: o.lion(0.1), {"dense": L.tree()["dense"], "scale": [None]}
    ),
    "chain_state": lambda L: L.optim.chain(L.optim.scale(1.0)).update(1.0, (1, 2)),
    "named_chain_names": lambda L: L.optim.named_chain(
        ("a", L.optim.scale(1.0)), ("a", L.optim.scale(1.0))
    ),
    "partition_label": lambda L: L.optim.partition({"a": L.optim.sgd(0.1)}, {"w": "b"}).init(
        {"w": 1.0}
    ),
    "masked_tree": lambda L: L.optim.masked(L.optim.adam(0.1), {"other": True}).init(L.tree()),
    "static_args": lambda L: L.optim.inject_hyperparams(L.optim.adam, static_args="nothing"),
    "lookahead_period": lambda L: L.optim.lookahead(L.optim.sgd(0.1), 0, 0.5),
    "lion_mode": lambda L: update_with(L, lambda o: o.scale_by_lion(mode="soft")),
    "polyak_variant": lambda L: L.optim.polyak_sgd(variant="x").update(
        L.tree(), L.optim.polyak_sgd(variant="x").init(L.tree()), L.tree(), value=1.0
    ),
    "polyak_value": lambda L: update_with(L, lambda o: o.polyak_sgd()),
    "lbfgs_memory": lambda L: L.optim.scale_by_lbfgs(0),
    "lbfgs_value": lambda L: update_with(L, lambda o: o.lbfgs()),
    "optimistic_adam_schedule": lambda L: L.optim.optimistic_adam(lambda step: 0.1),
    "noise_key_and_seed": lambda L: L.optim.add_noise(0.1, 0.5, 1, seed=2),
    "per_example_scalar": lambda L: L.optim.per_example_layer_norm_clip(
        [L.array(np.ones(3)), L.array(np.ones(2))], 1.0
    ),
    "unitwise_norm_rank": lambda L: L.optim.transforms.unitwise_norm(
        L.array(np.ones((2, 2, 2, 2, 2, 2)))
    ),
    "safe_increment_bool": lambda L: L.optim.safe_increment(L.jnp.asarray(True)),
    "multi_steps_skip": lambda L: update_with(
        L,
        lambda o: o.MultiSteps(
            o.sgd(0.1), 2, should_skip_update_fn=lambda u, s, p: (L.jnp.zeros(2), ())
        ),
    ),
    "sm3_complex": lambda L: L.optim.sm3(0.1).init([L.jnp.ones(2, "complex64")]),
    "value_and_grad_state": lambda L: L.optim.value_and_grad_from_state(lambda x: x)(
        1.0, state=L.optim.adam(0.1).init(1.0)
    ),
    "linesearch_argument": lambda L: L.optim.scale_by_zoom_linesearch(3).update(
        L.array([1.0]),
        L.optim.scale_by_zoom_linesearch(3).init(L.array([1.0])),
        L.array([1.0]),
        value=1.0,
        grad=L.array([1.0]),
        value_fn=lambda x: x.sum(),
        other=3,
    ),
    "tree_dtype_mixed": lambda L: L.optim.tree.dtype([L.jnp.ones(2, "float16"), L.jnp.ones(2)]),
    "tree_dtype_handler": lambda L: L.optim.tree.dtype([L.jnp.ones(2)], "other"),
    "tree_norm_ord": lambda L: L.optim.tree.norm([L.jnp.ones(2)], ord=3),
    "tree_get_twice": lambda L: L.optim.tree.get([{"a": 1}, {"a": 2}], "a"),
    "tree_set_none": lambda L: L.optim.tree.set([{"a": 1}], b=2),
}

# Their schedule computes in float32, with 64-bit numbers too.
SINGLE = ("inject", "scale_by_schedule")
CASES = (
    [
        Case(name, lambda L, make=make: steps(make, L), x64, 1e-6 if x64 and name in SINGLE else 0)
        for x64 in (False, True)
        for name, make in T.items()
    ]
    + [Case(name, run, x64) for x64 in (False, True) for name, run in OTHERS.items()]
    + [Case(f"error_{name}", run) for name, run in ERRORS.items()]
)
