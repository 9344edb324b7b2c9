"""jaxopt, ott and mctx."""

import jax
import jax.numpy as jnp
import jaxopt
import mctx
import ott

KEY = jax.random.key(0)


def rosenbrock(p, scale=1.0):
    return scale * ((1 - p[0]) ** 2 + 10 * (p[1] - p[0] ** 2) ** 2)


def jaxopt_lbfgs():
    solver = jaxopt.LBFGS(fun=rosenbrock, maxiter=30)
    return lambda: solver.run(jnp.array([-0.5, 0.5])).params


def jaxopt_gradient_descent_implicit():
    def solution(scale):
        fun = lambda p, s: jnp.sum((p - s) ** 2) + jnp.sum(p**2)
        return (
            jaxopt.GradientDescent(fun, maxiter=50, implicit_diff=True)
            .run(jnp.zeros(2), s=scale)
            .params
        )

    return lambda: (solution(2.0), jax.jacobian(solution)(2.0))


def jaxopt_projected():
    solver = jaxopt.ProjectedGradient(
        rosenbrock, projection=jaxopt.projection.projection_box, maxiter=30
    )
    bounds = (jnp.zeros(2), jnp.full(2, 0.8))
    return lambda: solver.run(jnp.array([0.1, 0.5]), hyperparams_proj=bounds).params


def jaxopt_gauss_newton():
    t = jnp.linspace(0.0, 1.0, 8)
    residual = lambda p: p[0] * jnp.exp(-p[1] * t) - 2.0 * jnp.exp(-1.5 * t)
    solver = jaxopt.GaussNewton(residual_fun=residual, maxiter=10)
    return lambda: solver.run(jnp.array([1.5, 1.0])).params


def jaxopt_bisection():
    solver = jaxopt.Bisection(lambda x: x**3 - x - 1, 1.0, 2.0)
    return lambda: solver.run().params


def ott_sinkhorn():
    x = jax.random.normal(KEY, (8, 2))
    y = jax.random.normal(jax.random.key(1), (8, 2)) + 1

    @jax.jit
    def run():
        geometry = ott.geometry.pointcloud.PointCloud(x, y, epsilon=0.5)
        problem = ott.problems.linear.linear_problem.LinearProblem(geometry)
        out = ott.solvers.linear.sinkhorn.Sinkhorn()(problem)
        return out.reg_ot_cost, out.matrix

    return run


def ott_gradient():
    y = jax.random.normal(jax.random.key(1), (6, 2))

    def cost(x):
        geometry = ott.geometry.pointcloud.PointCloud(x, y, epsilon=0.5)
        problem = ott.problems.linear.linear_problem.LinearProblem(geometry)
        return ott.solvers.linear.sinkhorn.Sinkhorn()(problem).reg_ot_cost

    f = jax.jit(jax.grad(cost))
    return lambda: f(jax.random.normal(KEY, (6, 2)))


def mctx_search(policy):
    def recurrent(params, key, action, embedding):
        reward = jnp.where(action == 1, 1.0, 0.0)
        output = mctx.RecurrentFnOutput(
            reward=reward,
            discount=jnp.full(reward.shape, 0.9),
            prior_logits=jnp.zeros((*reward.shape, 3)),
            value=jnp.zeros(reward.shape),
        )
        return output, embedding + 1

    root = mctx.RootFnOutput(
        prior_logits=jnp.zeros((2, 3)), value=jnp.zeros(2), embedding=jnp.zeros(2)
    )

    @jax.jit
    def run():
        out = policy((), KEY, root, recurrent, num_simulations=12, max_depth=4)
        return out.action, out.action_weights

    return run


def mctx_muzero():
    return mctx_search(mctx.muzero_policy)


def mctx_gumbel():
    return mctx_search(mctx.gumbel_muzero_policy)
