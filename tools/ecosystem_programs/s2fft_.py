"""s2fft: harmonic transforms on the sphere, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import s2fft
from s2fft.utils import signal_generator

jax.config.update("jax_enable_x64", True)


def _coefficients(spin=0):
    return jnp.asarray(signal_generator.generate_flm(np.random.default_rng(0), 8, spin=spin))


def inverse():
    flm = _coefficients()
    return lambda: s2fft.inverse_jax(flm, L=8)


def round_trip_with_spin():
    flm = _coefficients(2)
    return lambda: s2fft.forward_jax(s2fft.inverse_jax(flm, L=8, spin=2), L=8, spin=2)


def gradient_of_power():
    flm = _coefficients()

    @jax.jit
    @jax.grad
    def gradient(scale):
        return jnp.sum(jnp.abs(s2fft.inverse_jax(scale * flm, L=8)) ** 2)

    return lambda: gradient(1.5)
