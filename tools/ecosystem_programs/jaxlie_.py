"""jaxlie: groups of motions."""

import jax
import jax.numpy as jnp
import jaxlie


def exponential_and_logarithm():
    tangent = 0.3 * jnp.arange(6.0)
    both = jax.jit(lambda t: (jaxlie.SE3.exp(t).as_matrix(), jaxlie.SE3.exp(t).log()))
    return lambda: both(tangent)


def batched_rotations():
    keys = jax.random.split(jax.random.key(0), 4)
    points = jax.random.normal(jax.random.key(1), (4, 3))
    turn = jax.jit(jax.vmap(lambda key, x: jaxlie.SO3.sample_uniform(key) @ x))
    return lambda: turn(keys, points)


def descent_on_the_manifold():
    target = jaxlie.SE2.exp(jnp.array([0.5, -0.2, 0.7]))

    @jax.jit
    def step(pose):
        loss = lambda tree: jnp.sum((tree["pose"].inverse() @ target).log() ** 2)
        grads = jaxlie.manifold.grad(loss)(pose)
        return jaxlie.manifold.rplus(pose, jax.tree.map(lambda g: -0.1 * g, grads))

    def run():
        pose = {"pose": jaxlie.SE2.identity()}
        for _ in range(5):
            pose = step(pose)
        return pose["pose"].parameters()

    return run
