"""Every optimiser over 20 steps: all updates, and the state after some of the steps."""

import functools

import numpy as np

from tests.optim.harness import Case

STEPS = 20
KEPT = (1, 2, 10, 20)


def steps(make, L, needs=(), seed=0, tree=None, count=STEPS):
    """Updates of a noisy quadratic loss, and states."""
    opt = make(L)
    params = L.tree(seed) if tree is None else tree(L)
    draw = np.random.RandomState(seed + 1).standard_normal
    state = opt.init(params)
    states, updates = {0: state}, []

    def advance(params, state, noise):
        def loss(params):
            parts = zip(L.jax.tree.leaves(params), noise, strict=True)
            return sum(L.jnp.sum((p - 0.5) ** 2 + 0.3 * n * p) for p, n in parts) + 1.0

        leaves, structure = L.jax.tree.flatten(params)
        grads = [2 * (p - 0.5) + 0.3 * n for p, n in zip(leaves, noise, strict=True)]
        grads = L.jax.tree.unflatten(structure, grads)
        known = {"grad": grads, "value_fn": loss, "obj_fn": loss}
        known["grad_fn"] = functools.partial(gradient, L, loss)
        if "value" in needs:
            known["value"] = loss(params)
        extra = {name: known[name] for name in needs}
        update, state = opt.update(grads, state, params, **extra)
        return update, state, L.optim.apply_updates(params, update)

    # On optax always: its loops and conditions compile anew in every step otherwise.
    if L.compiled or {"value_fn", "obj_fn", "grad_fn"} & set(needs):
        advance = L.jax.jit(advance)
    for step in range(1, count + 1):
        noise = [L.array(draw(p.shape)) for p in L.jax.tree.leaves(params)]
        update, state, params = advance(params, state, noise)
        updates.append(update)
        if step in KEPT:
            states[step] = state
    return {"states": states, "updates": [stack(L, updates)], "params": params}


def gradient(L, loss, params, step):
    """The gradient as `sam` asks for it."""
    return L.jax.grad(loss)(params)


def stack(L, trees):
    """The same leaf of all trees in one array."""
    return L.jax.tree.map(lambda *leaves: np.stack([np.asarray(leaf) for leaf in leaves]), *trees)


def decay_mask(params):
    """Weight decay for the matrix alone."""
    return {"dense": {"w": True, "b": False}, "scale": [False]}


def halving(L):
    """A schedule of learning rates."""
    return L.optim.exponential_decay(0.1, 5, 0.5)


O = {
    "adabelief": lambda L: L.optim.adabelief(0.01),
    "adabelief_nesterov": lambda L: L.optim.adabelief(0.01, nesterov=True),
    "adadelta": lambda L: L.optim.adadelta(0.5),
    "adadelta_decay": lambda L: L.optim.adadelta(
        0.5, weight_decay=0.1, weight_decay_mask=decay_mask
    ),
    "adafactor": lambda L: L.optim.adafactor(0.1),
    "adafactor_factored": lambda L: L.optim.adafactor(0.1, min_dim_size_to_factor=2, momentum=0.9),
    "adafactor_all": lambda L: L.optim.adafactor(
        min_dim_size_to_factor=2,
        weight_decay_rate=0.1,
        clipping_threshold=None,
        multiply_by_parameter_scale=False,
        decay_rate=0.7,
        weight_decay_mask=decay_mask,
    ),
    "adagrad": lambda L: L.optim.adagrad(0.1),
    "adam": lambda L: L.optim.adam(0.1),
    "adam_schedule": lambda L: L.optim.adam(halving(L)),
    "adam_options": lambda L: L.optim.adam(0.1, b1=0.8, b2=0.95, eps=1e-4, eps_root=1e-5),
    "adam_bf16": lambda L: L.optim.adam(0.1, mu_dtype="bfloat16"),
    "nadam": lambda L: L.optim.nadam(0.1),
    "adamax": lambda L: L.optim.adamax(0.1),
    "adamaxw": lambda L: L.optim.adamaxw(0.1, weight_decay=0.1, mask=decay_mask),
    "adamw": lambda L: L.optim.adamw(0.1, weight_decay=0.1),
    "adamw_mask": lambda L: L.optim.adamw(halving(L), weight_decay=0.1, mask=decay_mask),
    "adamw_decay_schedule": lambda L: L.optim.adamw(0.1, weight_decay=halving(L)),
    "nadamw": lambda L: L.optim.nadamw(0.1),
    "adan": lambda L: L.optim.adan(0.1, weight_decay=0.1),
    "amsgrad": lambda L: L.optim.amsgrad(0.1),
    "amsgrad_biased": lambda L: L.optim.amsgrad(
        0.1, bias_correction_mu=False, bias_correction_nu=False
    ),
    "fromage": lambda L: L.optim.fromage(0.1),
    "fromage_schedule": lambda L: L.optim.fromage(halving(L)),
    "lamb": lambda L: L.optim.lamb(0.1, weight_decay=0.1, mask=decay_mask),
    "lars": lambda L: L.optim.lars(0.1, weight_decay=0.1),
    "lars_mask": lambda L: L.optim.lars(
        0.1,
        weight_decay=0.1,
        weight_decay_mask=decay_mask,
        trust_ratio_mask=decay_mask,
        nesterov=True,
    ),
    "lion": lambda L: L.optim.lion(0.1),
    "lion_bf16": lambda L: L.optim.lion(0.1, mu_dtype="bfloat16"),
    "noisy_sgd": lambda L: L.optim.noisy_sgd(0.1, key=3),
    "novograd": lambda L: L.optim.novograd(0.1, weight_decay=0.1),
    "optimistic_gradient_descent": lambda L: L.optim.optimistic_gradient_descent(0.1),
    "optimistic_adam": lambda L: L.optim.optimistic_adam(0.1),
    "optimistic_adam_v2": lambda L: L.optim.optimistic_adam_v2(halving(L), alpha=0.5),
    "radam": lambda L: L.optim.radam(0.1, b2=0.9),
    "radam_nesterov": lambda L: L.optim.radam(0.1, b2=0.9, nesterov=True),
    "rmsprop": lambda L: L.optim.rmsprop(0.1),
    "rmsprop_momentum": lambda L: L.optim.rmsprop(
        0.1, momentum=0.9, nesterov=True, initial_scale=1.0, eps_in_sqrt=False
    ),
    "rmsprop_centered": lambda L: L.optim.rmsprop(
        0.1, eps=1e-2, centered=True, bias_correction=True
    ),
    "rmsprop_centered_outside": lambda L: L.optim.rmsprop(
        0.1, eps=1e-3, centered=True, initial_scale=1.0, eps_in_sqrt=False
    ),
    "rmsprop_corrected": lambda L: L.optim.rmsprop(0.1, bias_correction=True),
    "rprop": lambda L: L.optim.rprop(0.1),
    "sgd": lambda L: L.optim.sgd(0.1),
    "sgd_momentum": lambda L: L.optim.sgd(halving(L), momentum=0.9),
    "sgd_nesterov": lambda L: L.optim.sgd(
        0.1, momentum=0.9, nesterov=True, accumulator_dtype="bfloat16"
    ),
    "sign_sgd": lambda L: L.optim.sign_sgd(0.1),
    "signum": lambda L: L.optim.signum(0.1),
    "sm3": lambda L: L.optim.sm3(0.1),
    "yogi": lambda L: L.optim.yogi(0.1),
}
WITH_VALUE = {
    "polyak_sgd": (lambda L: L.optim.polyak_sgd(), ["value"]),
    "polyak_sgd_plus": (
        lambda L: L.optim.polyak_sgd(0.3, 0.5, f_min=2.0, variant="sps+"),
        ["value"],
    ),
    "lbfgs": (lambda L: L.optim.lbfgs(), ["value", "grad", "value_fn"]),
    "lbfgs_plain": (lambda L: L.optim.lbfgs(0.1, memory_size=3, linesearch=None), []),
    "lbfgs_unscaled": (lambda L: L.optim.lbfgs(0.1, 2, False, linesearch=None), []),
    "lbfgs_backtracking": (
        lambda L: L.optim.lbfgs(linesearch=L.optim.scale_by_backtracking_linesearch(10)),
        ["value", "grad", "value_fn"],
    ),
    "backtracking": (
        lambda L: L.optim.chain(
            L.optim.sgd(5.0),
            L.optim.scale_by_backtracking_linesearch(15, store_grad=True, decrease_factor=0.5),
        ),
        ["value", "grad", "value_fn"],
    ),
    "zoom": (
        lambda L: L.optim.chain(L.optim.sgd(0.01), L.optim.scale_by_zoom_linesearch(15)),
        ["value", "grad", "value_fn"],
    ),
    "zoom_limited": (
        lambda L: L.optim.chain(
            L.optim.sgd(1.0),
            L.optim.scale_by_zoom_linesearch(
                3,
                max_learning_rate=0.2,
                curv_rtol=0.1,
                initial_guess_strategy="one",
                approx_dec_rtol=None,
            ),
        ),
        ["value", "grad", "value_fn"],
    ),
}
# Schedules of optax compute in float32 from integer steps, with 64-bit numbers too.
SINGLE = (
    "adam_schedule adamw_mask adamw_decay_schedule fromage_schedule optimistic_adam_v2 sgd_momentum"
)
# Curvature is a quotient of differences, which magnifies rounding from step to step.
LOOSE = {
    "rmsprop_centered": (1e-4, 0.0),
    "lbfgs_plain": (1e-3, 1e-10),
    "lbfgs_unscaled": (1e-4, 1e-10),
    "lbfgs_backtracking": (0.0, 1e-9),
}
# Their decisions hang on the last bits of a float32.
ONLY_X64 = ("lbfgs_backtracking",)


def case(name, make, needs, x64):
    """All steps of an optimiser as a case."""
    tolerance = LOOSE.get(name, (0.0, 0.0))[x64]
    if x64 and name in SINGLE.split():
        tolerance = 1e-6
    eager = name.endswith("bf16") or name == "sgd_nesterov"
    return Case(name, lambda L: steps(make, L, needs), x64, tolerance, eager)


CASES = [
    case(name, make, needs, x64)
    for x64 in (False, True)
    for name, (make, needs) in ({name: (make, []) for name, make in O.items()} | WITH_VALUE).items()
    if x64 or name not in ONLY_X64
]
