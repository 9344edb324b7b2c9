"""dynamiqs: quantum systems in time."""

import dynamiqs as dq
import jax.numpy as jnp

dq.set_progress_meter(False)


def schroedinger():
    a = dq.destroy(8)
    hamiltonian = a.dag() @ a + 0.2 * (a + a.dag())
    times = jnp.linspace(0.0, 1.0, 5)

    def run():
        found = dq.sesolve(hamiltonian, dq.coherent(8, 0.5), times, exp_ops=[a.dag() @ a])
        return found.expects, found.states.to_jax()

    return run


def lindblad():
    a = dq.destroy(6)
    times = jnp.linspace(0.0, 1.0, 4)

    def run():
        number = a.dag() @ a
        return dq.mesolve(number, [0.3 * a], dq.fock(6, 2), times, exp_ops=[number]).expects

    return run


def operators():
    a = dq.destroy(5)
    state = dq.coherent(5, 0.3 + 0.2j)
    return lambda: (dq.expect(a.dag() @ a, state), dq.tensor(a, dq.eye(2)).to_jax())
