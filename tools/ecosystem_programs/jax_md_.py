"""jax-md: molecular dynamics."""

import jax
import jax.numpy as jnp
from jax_md import energy, minimize, simulate, space


def _particles():
    return jax.random.uniform(jax.random.key(0), (16, 2)) * 4.0


def energy_and_force():
    displacement, _ = space.periodic(4.0)
    potential = energy.soft_sphere_pair(displacement)
    both = jax.jit(jax.value_and_grad(potential))
    return lambda: both(_particles())


def fire_descent():
    displacement, shift = space.periodic(4.0)
    init, apply = minimize.fire_descent(energy.soft_sphere_pair(displacement), shift)

    @jax.jit
    def descend(r):
        return jax.lax.fori_loop(0, 20, lambda i, s: apply(s), init(r)).position

    return lambda: descend(_particles())


def nve_with_neighbours():
    from jax_md import partition

    displacement, shift = space.periodic(4.0)
    neighbours, potential = energy.soft_sphere_neighbor_list(displacement, 4.0)
    init, apply = simulate.nve(potential, shift, 1e-3)

    def run():
        r = _particles()
        near = neighbours.allocate(r)
        state = init(jax.random.key(1), r, kT=0.1, neighbor=near)
        for _ in range(5):
            near = near.update(state.position)
            state = jax.jit(apply)(state, neighbor=near)
        assert partition.is_sparse(near.format) or not bool(near.did_buffer_overflow)
        return state.position, state.velocity, jnp.asarray(potential(state.position, near))

    return run
