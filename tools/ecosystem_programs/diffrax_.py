"""diffrax, lineax and optimistix."""

import diffrax
import jax
import jax.numpy as jnp
import lineax as lx
import optimistix as optx

KEY = jax.random.key(0)
Y0 = jnp.array([1.0, 0.5])


def field(t, y, args):
    return jnp.stack([args * y[1], -y[0] - 0.1 * y[1]])


def solve(args=1.0, solver=None, controller=None, **options):
    return diffrax.diffeqsolve(
        diffrax.ODETerm(field),
        solver or diffrax.Tsit5(),
        t0=0.0,
        t1=2.0,
        dt0=0.1,
        y0=Y0,
        args=args,
        stepsize_controller=controller or diffrax.ConstantStepSize(),
        **options,
    )


def ode():
    return jax.jit(lambda: solve().ys)


def ode_adaptive_dense():
    @jax.jit
    def run():
        controller = diffrax.PIDController(rtol=1e-5, atol=1e-6)
        save = diffrax.SaveAt(ts=jnp.linspace(0, 2, 5), dense=True)
        found = solve(controller=controller, saveat=save)
        return found.ys, found.evaluate(0.7)

    return run


def ode_gradient():
    f = jax.jit(jax.value_and_grad(lambda a: solve(a).ys.sum()))
    return lambda: f(1.0)


def ode_backsolve_gradient():
    adjoint = diffrax.BacksolveAdjoint()
    f = jax.jit(jax.grad(lambda a: solve(a, adjoint=adjoint).ys.sum()))
    return lambda: f(1.0)


def ode_implicit():
    controller = diffrax.PIDController(rtol=1e-4, atol=1e-5)
    f = jax.jit(lambda a: solve(a, diffrax.Kvaerno3(), controller).ys)
    return lambda: f(3.0)


def sde():
    @jax.jit
    def run():
        noise = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (2,), KEY)
        diffusion = diffrax.ControlTerm(
            lambda t, y, args: lx.DiagonalLinearOperator(0.1 * jnp.ones(2)), noise
        )
        terms = diffrax.MultiTerm(diffrax.ODETerm(field), diffusion)
        return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.05, Y0, args=1.0).ys

    return run


def event():
    @jax.jit
    def run():
        stop = diffrax.Event(lambda t, y, args, **kwargs: y[0] - 0.5, optx.Newton(1e-5, 1e-5))
        found = solve(event=stop)
        return found.ts, found.ys

    return run


def linear_solves():
    a = jnp.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.5], [0.0, 0.5, 2.0]])
    b = jnp.arange(3.0)

    @jax.jit
    def run():
        general = lx.MatrixLinearOperator(a)
        definite = lx.MatrixLinearOperator(a, lx.positive_semidefinite_tag)
        return (
            lx.linear_solve(general, b).value,
            lx.linear_solve(definite, b, lx.CG(1e-6, 1e-6)).value,
            lx.linear_solve(definite, b, lx.Cholesky()).value,
            lx.linear_solve(lx.MatrixLinearOperator(a[:, :2]), b, lx.QR()).value,
        )

    return run


def linear_solve_gradient():
    b = jnp.arange(1.0, 3.0)

    def f(s):
        operator = lx.FunctionLinearOperator(
            lambda x: s * x + x[::-1], jax.ShapeDtypeStruct((2,), jnp.float32)
        )
        return lx.linear_solve(operator, b, lx.GMRES(1e-6, 1e-6)).value.sum()

    g = jax.jit(jax.value_and_grad(f))
    return lambda: g(3.0)


def root_find():
    def f(a):
        fn = lambda y, args: jnp.tanh(y) - args * jnp.array([0.3, 0.6])
        return optx.root_find(fn, optx.Newton(1e-6, 1e-6), jnp.zeros(2), args=a).value.sum()

    g = jax.jit(jax.value_and_grad(f))
    return lambda: g(0.9)


def least_squares():
    t = jnp.linspace(0, 1, 10)
    data = 2.0 * jnp.exp(-1.5 * t)

    @jax.jit
    def run():
        fn = lambda p, args: p[0] * jnp.exp(-p[1] * t) - data
        solver = optx.LevenbergMarquardt(1e-6, 1e-6)
        return optx.least_squares(fn, solver, jnp.array([1.0, 1.0])).value

    return run


def minimise():
    @jax.jit
    def run():
        fn = lambda p, args: (1 - p[0]) ** 2 + 10 * (p[1] - p[0] ** 2) ** 2
        return optx.minimise(fn, optx.BFGS(1e-5, 1e-5), jnp.array([-0.5, 0.5])).value

    return run


def fixed_point():
    @jax.jit
    def run():
        fn = lambda y, args: jnp.cos(y)
        return optx.fixed_point(fn, optx.FixedPointIteration(1e-6, 1e-6), jnp.array(0.5)).value

    return run
