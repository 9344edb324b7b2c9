"""Projections, functions of trees, linear algebra, microbatches, assignments and the rest."""

import numpy as np

from tests.optim.harness import Case

DRAW = np.random.RandomState(5)
MATRIX = DRAW.standard_normal((4, 4))
POSITIVE = MATRIX @ MATRIX.T
COSTS = DRAW.standard_normal((6, 6))
VECTOR = DRAW.standard_normal(5)
BATCH = DRAW.standard_normal((6, 3))


def with_grad(name, *args):
    """A projection of a tree and of a vector, and the gradient of a product with it."""

    def run(L):
        project = getattr(L.optim.projections, name)
        numbers = [L.array(a) if isinstance(a, np.ndarray) else a for a in args]
        x = L.array(VECTOR)

        def product(x):
            return L.jnp.vdot(project(x, *numbers), L.array(VECTOR[::-1]))

        return project(x, *numbers), L.jax.grad(product)(x)

    return run


def on_tree(name, *args):
    """A projection of a tree."""
    return lambda L: getattr(L.optim.projections, name)(L.tree(), *args)


def vectors(name, *args):
    """A projection that takes another tree."""
    return lambda L: getattr(L.optim.projections, name)(L.tree(), L.tree(1), *args)


PROJECTIONS = {
    "non_negative": with_grad("projection_non_negative"),
    "box": with_grad("projection_box", -0.5, 0.3),
    "box_arrays": with_grad("projection_box", -np.ones(5), np.zeros(5)),
    "hypercube": with_grad("projection_hypercube", 0.5),
    "simplex": with_grad("projection_simplex"),
    "simplex_scale": with_grad("projection_simplex", 3.0),
    "simplex_tree": on_tree("projection_simplex", 2.0),
    "l1_sphere": with_grad("projection_l1_sphere", 0.5),
    "l1_sphere_tree": on_tree("projection_l1_sphere"),
    "l1_ball": with_grad("projection_l1_ball", 0.5),
    "l1_ball_inside": with_grad("projection_l1_ball", 50.0),
    "l2_sphere": with_grad("projection_l2_sphere", 0.5),
    "l2_sphere_tree": on_tree("projection_l2_sphere"),
    "l2_ball": with_grad("projection_l2_ball", 0.5),
    "l2_ball_inside": with_grad("projection_l2_ball", 50.0),
    "linf_ball": with_grad("projection_linf_ball", 0.5),
    "linf_ball_tree": on_tree("projection_linf_ball", 0.5),
    "vector": with_grad("projection_vector", VECTOR[::-1] ** 2),
    "vector_tree": vectors("projection_vector"),
    "hyperplane": with_grad("projection_hyperplane", VECTOR[::-1] ** 2, 0.5),
    "hyperplane_tree": vectors("projection_hyperplane", 1.0),
    "halfspace": with_grad("projection_halfspace", VECTOR[::-1] ** 2, -5.0),
    "halfspace_inside": with_grad("projection_halfspace", VECTOR[::-1] ** 2, 50.0),
}


def state(L):
    """A state with names to look for."""
    opt = L.optim.chain(
        L.optim.inject_hyperparams(L.optim.adamw)(0.1),
        L.optim.masked(L.optim.trace(0.9), {"dense": True, "scale": False}),
    )
    return opt, opt.init(L.tree())


def paths(L, found):
    """Paths as text with their values."""
    return {"".join(f"<{step}>" for step in path): value for path, value in found}


T = {
    "add": lambda o, L: o.add(L.tree(), L.tree(1), L.tree(2)),
    "sub": lambda o, L: o.sub(L.tree(), L.tree(1)),
    "mul": lambda o, L: o.mul(L.tree(), L.tree(1)),
    "div": lambda o, L: o.div(L.tree(), L.tree(1)),
    "scale": lambda o, L: o.scale(2.5, L.tree()),
    "add_scale": lambda o, L: o.add_scale(L.tree(), 0.5, L.tree(1)),
    "vdot": lambda o, L: o.vdot(L.tree(), L.tree(1)),
    "vdot_complex": lambda o, L: o.vdot(
        L.jnp.asarray([1 + 2j, 3j]), L.jnp.asarray([2 - 1j, 1 + 1j])
    ),
    "sum": lambda o, L: [o.sum(L.tree()), o.sum(L.tree(), associative_reduction=True), o.sum({})],
    "max": lambda o, L: [o.max(L.tree()), o.max([L.array(np.zeros(0)), L.array([1.0])])],
    "min": lambda o, L: o.min(L.tree()),
    "size": lambda o, L: o.size(L.tree()),
    "conj": lambda o, L: o.conj([L.jnp.asarray([1 + 2j])]),
    "real": lambda o, L: o.real([L.jnp.asarray([1 + 2j])]),
    "norm": lambda o, L: [
        o.norm(L.tree(), ord=k, squared=s)
        for k in (None, 1, 2, "inf", np.inf)
        for s in (False, True)
    ],
    "norm_complex": lambda o, L: o.norm([L.jnp.asarray([1 + 2j])]),
    "batch_shape": lambda o, L: o.batch_shape(L.tree(), (2,)),
    "likes": lambda o, L: [
        o.zeros_like(L.tree()),
        o.ones_like(L.tree(), "int32"),
        o.full_like(L.tree(), 2.0),
    ],
    "clip": lambda o, L: [o.clip(L.tree(), -0.5, 0.5), o.clip(L.tree(), max_value=0.1)],
    "where": lambda o, L: o.where(L.jnp.asarray(False), L.tree(), L.tree(1)),
    "allclose": lambda o, L: [o.allclose(L.tree(), L.tree()), o.allclose(L.tree(), L.tree(1))],
    "update_moment": lambda o, L: o.update_moment(L.tree(), L.tree(1), 0.9, 3),
    "update_infinity_moment": lambda o, L: o.update_infinity_moment(L.tree(), L.tree(1), 0.9, 0.1),
    "update_moment_per_elem_norm": lambda o, L: [
        o.update_moment_per_elem_norm(L.tree(), L.tree(1), 0.9, 2),
        o.update_moment_per_elem_norm(L.jnp.asarray([1 + 2j]), L.array([0.5]), 0.9, 3),
    ],
    "bias_correction": lambda o, L: o.bias_correction(L.tree(), 0.9, 3),
    "cast": lambda o, L: [o.cast(L.tree(), "bfloat16"), o.cast(L.tree(), None)],
    "cast_like": lambda o, L: o.cast_like(L.tree(), o.cast(L.tree(), "float16")),
    "dtype": lambda o, L: (
        [
            str(o.dtype([L.jnp.ones(2, "float16"), L.jnp.ones(2, "float32")], h))
            for h in ("promote", "highest", "lowest")
        ]
        + [str(o.dtype(L.tree()))]
    ),
    "split_key_like": lambda o, L: o.split_key_like(L.jax.random.key(0), L.tree()),
    "random_like": lambda o, L: [
        o.random_like(L.jax.random.key(0), L.tree()),
        o.random_like(L.jax.random.key(0), L.tree(), L.jax.random.uniform),
    ],
    "unwrap_random_key_data": lambda o, L: o.unwrap_random_key_data([L.jax.random.key(3), 1.0]),
    "get": lambda o, L: [
        o.get(state(L)[1], "learning_rate"),
        o.get(state(L)[1], "trace"),
        o.get(state(L)[1], "nothing", 3.0),
    ],
    "get_state": lambda o, L: o.get(state(L)[1], "ScaleByAdamState"),
    "get_filtered": lambda o, L: o.get(
        state(L)[1], "count", filtering=lambda path, value: "ScaleByAdam" in str(path)
    ),
    "get_all_with_path": lambda o, L: paths(L, o.get_all_with_path(state(L)[1], "count")),
    "get_all_dict": lambda o, L: paths(
        L, o.get_all_with_path([{"a": 1, "b": {"a": 2}}, {"c": 3}], "a")
    ),
    "set": lambda o, L: o.set(state(L)[1], learning_rate=L.array(0.5), trace=7.0),
    "set_filtered": lambda o, L: o.set(
        [{"a": 1.0}, {"a": 2.0}], lambda path, value: value > 1, a=5.0
    ),
    "map_params": lambda o, L: o.map_params(
        state(L)[0], lambda x: x * 2, o.ones_like(state(L)[1]), transform_non_params=lambda x: 5.0
    ),
    "map_params_rest": lambda o, L: o.map_params(
        L.optim.adam(0.1), lambda x, p: x + p, L.optim.adam(0.1).init(L.tree()), L.tree()
    ),
}


def loss(params, inputs, targets):
    """A loss for second-order functions."""
    return ((inputs @ params["w"] + params["b"] - targets) ** 2).sum() * params["b"].sum()


def quadratic(L):
    """Parameters and data for it."""
    params = {"w": L.array(VECTOR[:3]), "b": L.array(VECTOR[3:4])}
    return params, L.array(BATCH), L.array(BATCH[:, 0])


def microbatched(L, kind, **kwargs):
    """Sums over parts of a batch."""
    m = L.optim.microbatching
    accumulator = getattr(m.AccumulationType, kind)
    f = m.microbatch(
        lambda w, x: {"y": (x @ w) ** 2, "x": x}, 1, 2, accumulator=accumulator, **kwargs
    )
    return f(L.array(VECTOR[:3]), L.array(BATCH))


def per_example(L, **kwargs):
    """Gradients of single examples."""
    m = L.optim.microbatching
    f = m.micro_grad(lambda w, x: L.jnp.sum((x @ w) ** 2), **kwargs)
    return f(L.array(VECTOR[:3]), L.array(BATCH))


def aggregated(L, steps):
    """Statistics of single gradients over steps."""
    a = L.optim.experimental.aggregating
    opt = a.add_mean_variance_to_opt(L.optim.sgd(0.1), accumulation_steps=steps)
    params = L.array(VECTOR[:3])
    state = opt.init(params)
    for step in range(4):
        updates, state = opt.update(L.array(BATCH + step), state, params)
    return updates, state, a.get_unbiased_mean_and_variance_ema(state)


def averaged(L):
    """Means over examples and steps."""
    a = L.optim.experimental.aggregating
    opt = a.process(
        L.optim.clip(0.5), a.average_incrementally_updates(0, 2), L.optim.sgd(0.1, momentum=0.9)
    )
    params, results = L.array(VECTOR[:3]), []
    state = opt.init(params)
    for step in range(4):
        updates, state = opt.update(L.array(BATCH + step), state, params)
        results.append(updates)
    return results, state


def perturbed(L, kind):
    """A function made smooth by noise."""
    p = L.optim.perturbations
    f = p.make_perturbed_fun(
        lambda x: L.jax.nn.one_hot(L.jnp.argmax(x), 5), 30, 0.5, getattr(p, kind)()
    )
    key, x = L.jax.random.key(1), L.array(VECTOR)
    return f(key, x), L.jax.jacobian(lambda x: f(key, x))(x)


M = {
    "power_iteration": lambda L: L.optim.power_iteration(L.array(POSITIVE))[0],
    "power_iteration_function": lambda L: L.optim.power_iteration(
        lambda v: {"a": 2 * v["a"]}, v0={"a": L.array([1.0, 0.0])}
    ),
    "matrix_inverse_pth_root": lambda L: L.optim.matrix_inverse_pth_root(
        L.array(POSITIVE + np.eye(4)), 4
    )[0],
    "nnls": lambda L: L.optim.nnls(L.array(BATCH), L.array(BATCH[:, 0] - BATCH[:, 1]), 50),
    "nnls_matrix": lambda L: L.optim.nnls(L.array(BATCH), L.array(BATCH), 10, L=30.0),
    "scale_gradient": lambda L: [
        L.jax.grad(lambda x, s=s: (L.optim.scale_gradient(x, s) ** 2).sum())(L.array(VECTOR))
        for s in (0.0, 0.5, 1.0)
    ],
    "multi_normal": lambda L: [
        L.optim.multi_normal(L.array(VECTOR[:2]), L.array(VECTOR[2:4])).log_prob(
            L.array([0.0, 1.0])
        ),
        L.optim.multi_normal(L.array(VECTOR[:2]), L.array(VECTOR[2:4])).sample(
            (3,), L.jax.random.key(0)
        ),
        L.optim.multi_normal(L.array(VECTOR[:2]), L.array(VECTOR[2:4])).params,
    ],
    "hvp": lambda L: L.optim.second_order.hvp(loss, L.array(VECTOR[:4]), *quadratic(L)),
    "hessian_diag": lambda L: L.optim.second_order.hessian_diag(loss, *quadratic(L)),
    "fisher_diag": lambda L: L.optim.second_order.fisher_diag(loss, *quadratic(L)),
    "hungarian_square": lambda L: L.optim.assignment.hungarian_algorithm(L.array(COSTS)),
    "hungarian_wide": lambda L: L.optim.assignment.hungarian_algorithm(L.array(COSTS[:3])),
    "hungarian_tall": lambda L: L.optim.assignment.hungarian_algorithm(L.array(COSTS[:, :4])),
    "hungarian_empty": lambda L: L.optim.assignment.hungarian_algorithm(L.array(COSTS[:0])),
    "base_hungarian_square": lambda L: L.optim.assignment.base_hungarian_algorithm(L.array(COSTS)),
    "base_hungarian_wide": lambda L: L.optim.assignment.base_hungarian_algorithm(
        L.array(COSTS[:3])
    ),
    "base_hungarian_tall": lambda L: L.optim.assignment.base_hungarian_algorithm(
        L.array(COSTS[:, :4])
    ),
    "microbatch_sum": lambda L: microbatched(L, "SUM"),
    "microbatch_mean": lambda L: microbatched(L, "MEAN"),
    "microbatch_running_mean": lambda L: microbatched(L, "RUNNING_MEAN"),
    "microbatch_concat": lambda L: microbatched(L, "CONCAT"),
    "microbatch_real": lambda L: microbatched(L, "SUM", num_real_microbatches=2),
    "micro_vmap": lambda L: L.optim.microbatching.micro_vmap(
        lambda w, x: (x @ w, x), (None, 0), microbatch_size=3
    )(L.array(VECTOR[:3]), L.array(BATCH)),
    "micro_grad": lambda L: per_example(L, microbatch_size=2),
    "micro_grad_options": lambda L: per_example(
        L,
        microbatch_size=3,
        keep_batch_dim=False,
        transform_fn=lambda g: g / (1 + abs(g)),
        metrics_fn=lambda g: g.sum(),
        accumulator=L.optim.microbatching.AccumulationType.MEAN,
    ),
    "micro_grad_whole": lambda L: per_example(L),
    "reshape_batch_axis": lambda L: L.optim.microbatching.reshape_batch_axis(
        {"x": L.array(BATCH.T)}, 2, axis=1
    ),
    "aggregating": lambda L: aggregated(L, 1),
    "aggregating_steps": lambda L: aggregated(L, 2),
    "aggregating_average": averaged,
    "perturbed_gumbel": lambda L: perturbed(L, "Gumbel"),
    "perturbed_normal": lambda L: perturbed(L, "Normal"),
}
E = {
    "power_iteration_start": lambda L: L.optim.power_iteration(lambda v: v),
    "microbatch_size": lambda L: L.optim.microbatch(lambda x: x, 0, 4)(L.array(BATCH)),
    "microbatch_sizes": lambda L: L.optim.microbatch(lambda x, y: x, (0, 1), 2)(
        L.array(BATCH), L.array(BATCH[:4])
    ),
    "microbatch_mean_integers": lambda L: L.optim.microbatch(
        lambda x: x, 0, 2, L.optim.microbatching.AccumulationType.MEAN
    )(L.jnp.arange(4)),
    "microbatch_accumulator": lambda L: L.optim.microbatch(lambda x: x, 0, 2, "sum")(
        L.array(BATCH)
    ),
    "accumulate_steps": lambda L: L.optim.experimental.aggregating.accumulate_avg_updates(0),
    "aggregating_sizes": lambda L: (
        L.optim.experimental.aggregating.get_batch_size_from_per_elt_updates(
            [L.array(BATCH), L.array(BATCH[:4])], 0
        )
    ),
    "unbiased_state": lambda L: L.optim.experimental.aggregating.get_unbiased_mean_and_variance_ema(
        ()
    ),
}
CASES = (
    [
        Case(f"projection_{name}", run, x64)
        for x64 in (False, True)
        for name, run in PROJECTIONS.items()
    ]
    + [
        Case(f"tree_{name}", lambda L, run=run: run(L.optim.tree, L), x64)
        for x64 in (False, True)
        for name, run in T.items()
    ]
    + [Case(name, run, x64) for x64 in (False, True) for name, run in M.items()]
    + [Case(f"error_{name}", run) for name, run in E.items()]
)
