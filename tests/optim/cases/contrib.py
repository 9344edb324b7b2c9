"""Optimisers of `contrib` over 20 steps."""

import numpy as np

from tests.optim.cases.optimisers import decay_mask, halving, steps
from tests.optim.harness import Case


def matrices(L):
    """Parameters for optimisers of matrices."""
    draw = np.random.RandomState(0).standard_normal
    return {
        "w": L.array(draw((4, 3))),
        "v": L.array(draw((2, 5))),
        "b": L.array(draw(3)),
        "k": L.array(draw((2, 2, 3))),
    }


def numbers(L, kind):
    """Dimension numbers for all but the vector."""
    make = getattr(L.optim.contrib, kind)
    return {"w": make(), "v": make(1, 0), "b": None, "k": make((0, 1), 2)}


def of(name, *args, **kwargs):
    """The optimiser of this name."""
    return lambda L: getattr(L.optim.contrib, name)(*args, **kwargs)


O = {
    "acprop": (of("acprop", 0.01, weight_decay=0.1), []),
    "ademamix": (of("ademamix", 0.1), []),
    "ademamix_schedules": (
        lambda L: L.optim.contrib.ademamix(
            0.1,
            b3=lambda n: 0.9 + 0.001 * n,
            alpha=lambda n: 0.1 * n,
            weight_decay=0.1,
            mask=decay_mask,
        ),
        [],
    ),
    "simplified_ademamix": (of("simplified_ademamix", 0.01, alpha=0.5, weight_decay=0.1), []),
    "adopt": (of("adopt", 0.1), []),
    "adopt_nesterov": (of("adopt", 0.1, nesterov=True, use_clipping=False), []),
    "cocob": (of("cocob"), []),
    "cocob_decay": (of("cocob", 0.5, 50.0, weight_decay=0.1, mask=decay_mask), []),
    "dadapt_adamw": (of("dadapt_adamw", estim_lr0=1e-2, weight_decay=0.1), []),
    "dadapt_adamw_schedule": (lambda L: L.optim.contrib.dadapt_adamw(halving(L)), []),
    "dog": (of("dog"), []),
    "dog_distance": (of("dog", 0.5, ("distance", 0.1), weight_decay=0.1, mask=decay_mask), []),
    "dog_learning_rate": (of("dog", init_step=("learning_rate", 0.1)), []),
    "dowg": (of("dowg"), []),
    "dowg_decay": (of("dowg", 0.5, 0.1, weight_decay=0.1), []),
    "madgrad": (of("madgrad", 0.1, weight_decay=0.1), []),
    "madgrad_schedule": (lambda L: L.optim.contrib.madgrad(halving(L), momentum=0.5), []),
    "mechanize": (lambda L: L.optim.contrib.mechanize(L.optim.adam(0.1)), []),
    "mechanize_sgd": (
        lambda L: L.optim.contrib.mechanize(L.optim.sgd(1.0), s_init=0.1, num_betas=3),
        [],
    ),
    "momo": (of("momo", 0.5), ["value"]),
    "momo_adapt": (of("momo", 0.5, weight_decay=0.1, adapt_lower_bound=True), ["value"]),
    "momo_adam": (of("momo_adam", 0.1), ["value"]),
    "momo_adam_adapt": (
        lambda L: L.optim.contrib.momo_adam(
            halving(L), weight_decay=0.1, adapt_lower_bound=True, lower_bound=0.5
        ),
        ["value"],
    ),
    "normalize": (lambda L: L.optim.chain(L.optim.contrib.normalize(), L.optim.sgd(0.1)), []),
    "prodigy": (of("prodigy", estim_lr0=1e-2, weight_decay=0.1), []),
    "prodigy_warmup": (of("prodigy", 0.5, beta3=0.9, estim_lr0=1e-2, safeguard_warmup=True), []),
    "reduce_on_plateau": (
        lambda L: L.optim.chain(
            L.optim.adam(0.5), L.optim.contrib.reduce_on_plateau(0.5, 2, cooldown=2)
        ),
        ["value"],
    ),
    "reduce_on_plateau_mean": (
        lambda L: L.optim.chain(
            L.optim.sgd(0.9),
            L.optim.contrib.reduce_on_plateau(
                0.5, 1, rtol=0.0, atol=1e-2, accumulation_size=3, min_scale=0.2
            ),
        ),
        ["value"],
    ),
    "sam": (
        lambda L: L.optim.contrib.sam(
            L.optim.sgd(0.1), L.optim.chain(L.optim.contrib.normalize(), L.optim.sgd(0.05))
        ),
        [],
    ),
    "sam_kept": (
        lambda L: L.optim.contrib.sam(L.optim.adam(0.1), L.optim.adam(0.05), 3, reset_state=False),
        [],
    ),
    "sam_opaque": (
        lambda L: L.optim.contrib.sam(L.optim.adam(0.1), L.optim.sgd(0.05), 3, opaque_mode=True),
        ["grad_fn"],
    ),
    "schedule_free": (
        lambda L: L.optim.contrib.schedule_free(
            L.optim.sgd(halving(L)), halving(L), b1=0.8, weight_lr_power=1.0
        ),
        [],
    ),
    "schedule_free_adamw": (of("schedule_free_adamw", 0.1, warmup_steps=5, weight_decay=0.1), []),
    "schedule_free_sgd": (of("schedule_free_sgd", 0.1, weight_decay=0.1), []),
    "sophia": (of("sophia", 0.1, update_interval=3), ["obj_fn"]),
    "sophia_unclipped": (
        of("sophia", 0.01, gamma=1.0, clip_threshold=None, weight_decay_mask=decay_mask),
        ["obj_fn"],
    ),
    "split_real": (lambda L: L.optim.contrib.split_real_and_imaginary(L.optim.adam(0.1)), []),
}
MATRICES = {
    "muon": of("muon", 0.1),
    "muon_options": of(
        "muon",
        0.1,
        "dion",
        nesterov=False,
        adaptive=True,
        weight_decay=0.1,
        adam_learning_rate=0.01,
        consistent_rms=0.2,
    ),
    "muon_spectral": of("muon", 0.1, preconditioning="spectral"),
    "muon_numbers": lambda L: L.optim.contrib.muon(
        0.1, muon_weight_dimension_numbers=numbers(L, "MuonDimensionNumbers")
    ),
    "galore": of("galore", 0.1, rank=2, update_proj_gap=7),
    "galore_numbers": lambda L: L.optim.contrib.galore(
        0.1,
        2,
        50,
        0.5,
        L.optim.trace(0.9),
        0.1,
        weight_dimension_numbers=numbers(L, "GaLoreDimensionNumbers"),
    ),
}


def complex_parameters(L):
    """Adam on the parts of complex numbers."""
    dtype = np.complex128 if L.x64 else np.complex64
    tree = {"z": L.jnp.asarray(np.array([1 + 2j, -0.5j], dtype)), "x": L.array([1.0])}
    return steps(
        lambda L: L.optim.contrib.split_real_and_imaginary(L.optim.sm3(0.1)),
        L,
        tree=lambda L: tree,
        count=5,
    )


def private(L):
    """Private gradients of a batch of four."""
    opt = L.optim.contrib.dpsgd(0.1, 1.0, 0.5, 3, momentum=0.9)
    draw = np.random.RandomState(0).standard_normal
    grads = {"w": L.array(draw((4, 3, 2))), "b": L.array(draw((4, 2)))}
    state = opt.init(L.jax.tree.map(lambda g: g[0], grads))
    return opt.update(grads, state)


def evaluated(L):
    """The averaged parameters of schedule-free training."""
    opt = L.optim.contrib.schedule_free_sgd(0.1)
    params = L.tree()
    _, state = opt.update(L.tree(1), opt.init(params), params)
    return L.optim.contrib.schedule_free_eval_params(state, params)


OTHERS = {"complex": complex_parameters, "dpsgd": private, "schedule_free_eval_params": evaluated}
ERRORS = {
    "plateau_factor": of("reduce_on_plateau", 1.5),
    "plateau_rtol": of("reduce_on_plateau", rtol=-1.0),
    "plateau_none": of("reduce_on_plateau", rtol=0.0),
    "plateau_large": of("reduce_on_plateau", rtol=2.0),
    "sam_period": lambda L: L.optim.contrib.sam(L.optim.sgd(0.1), L.optim.sgd(0.1), 0),
    "sam_opaque": lambda L: L.optim.contrib.sam(
        L.optim.sgd(0.1), L.optim.sgd(0.1), opaque_mode=True
    ).update(
        L.tree(),
        L.optim.contrib.sam(L.optim.sgd(0.1), L.optim.sgd(0.1), opaque_mode=True).init(L.tree()),
        L.tree(),
    ),
    "dog_init": lambda L: L.optim.contrib.dog(init_step=("other", 1.0)).init(L.tree()),
    "muon_preset": of("muon", 0.1, "other"),
    "galore_rank": of("galore", 0.1, rank=0),
    "galore_rank_type": of("galore", 0.1, rank=1.5),
    "muon_coeffs": lambda L: L.optim.contrib.muon(0.1, (1.0, 2.0)).init(matrices(L)),
    "prodigy_params": lambda L: L.optim.contrib.prodigy().update(
        L.tree(), L.optim.contrib.prodigy().init(L.tree())
    ),
    "dadapt_params": lambda L: L.optim.contrib.dadapt_adamw().update(
        L.tree(), L.optim.contrib.dadapt_adamw().init(L.tree())
    ),
    "mechanize_params": lambda L: L.optim.contrib.mechanize(L.optim.sgd(0.1)).update(
        L.tree(), L.optim.contrib.mechanize(L.optim.sgd(0.1)).init(L.tree())
    ),
    "momo_value": lambda L: L.optim.contrib.momo().update(
        L.tree(), L.optim.contrib.momo().init(L.tree()), L.tree(), value=None
    ),
    "sophia_objective": lambda L: L.optim.contrib.sophia(0.1).update(
        L.tree(), L.optim.contrib.sophia(0.1).init(L.tree()), L.tree()
    ),
    "madgrad_params": lambda L: L.optim.contrib.madgrad(0.1).update(
        L.tree(), L.optim.contrib.madgrad(0.1).init(L.tree())
    ),
}
# Schedules and singular vectors of optax are float32, with 64-bit numbers too.
SINGLE = (
    "dadapt_adamw_schedule madgrad_schedule momo_adam_adapt schedule_free schedule_free_adamw "
    "galore galore_numbers"
).split()
CASES = (
    [
        Case(
            name,
            lambda L, make=make, needs=needs: steps(make, L, needs),
            x64,
            1e-6 if x64 and name in SINGLE else 0,
        )
        for x64 in (False, True)
        for name, (make, needs) in O.items()
    ]
    + [
        Case(
            name,
            lambda L, make=make: steps(make, L, tree=matrices),
            x64,
            1e-5 if x64 and name in SINGLE else 0,
        )
        for x64 in (False, True)
        for name, make in MATRICES.items()
    ]
    + [Case(name, run, x64) for x64 in (False, True) for name, run in OTHERS.items()]
    + [Case(f"error_{name}", run) for name, run in ERRORS.items()]
)
