"""chex, jmp, jaxtyping, dm_pix, rlax, distrax, penzai and orbax."""

import pathlib
import tempfile

import chex
import distrax
import dm_pix
import jax
import jax.numpy as jnp
import jaxtyping
import jmp
import numpy as np
import orbax.checkpoint as ocp
import penzai.pz as pz
import rlax

KEY = jax.random.key(0)
FLOATS = jaxtyping.Float[jaxtyping.Array, " n"]
INTEGERS = jaxtyping.Int[jaxtyping.Array, " n"]


def chex_dataclass():
    @chex.dataclass
    class State:
        x: chex.Array
        n: chex.Array

    f = jax.jit(lambda s: State(x=s.x * 2, n=s.n + 1))
    return lambda: f(State(x=jnp.ones(3), n=jnp.array(1)))


def chex_assertions():
    @jax.jit
    @chex.assert_max_traces(n=1)
    def f(x):
        chex.assert_rank(x, 1)
        chex.assert_shape(x, (3,))
        chex.assert_tree_all_finite({"x": np.ones(2)})
        return x + 1

    chex.clear_trace_counter()
    return lambda: f(jnp.ones(3))


def jmp_policy():
    policy = jmp.get_policy("params=float32,compute=bfloat16,output=float32")

    @jax.jit
    def run():
        w, x = policy.cast_to_compute((jnp.ones((3, 3)), jnp.arange(3.0)))
        return policy.cast_to_output(w @ x)

    return run


def jmp_loss_scale():
    scale = jmp.StaticLossScale(128.0)
    f = jax.jit(lambda x: scale.unscale(jax.grad(lambda y: scale.scale(jnp.sum(y**2)))(x)))
    return lambda: f(jnp.arange(3.0))


def jaxtyping_annotations():
    @jaxtyping.jaxtyped(typechecker=None)
    def f(x: FLOATS):
        assert isinstance(x, FLOATS)
        assert not isinstance(x, INTEGERS)
        return x * 2

    return lambda: f(jnp.ones(2))


def pix_images():
    image = jax.random.uniform(KEY, (8, 8, 3))
    return jax.jit(
        lambda: (
            dm_pix.gaussian_blur(image, 1.0, 3),
            dm_pix.rgb_to_hsv(image),
            dm_pix.adjust_contrast(image, 1.5),
            dm_pix.flip_left_right(image),
            dm_pix.psnr(image, image * 0.9),
        )
    )


def rlax_returns():
    r = jnp.arange(5.0)
    discount = jnp.full(5, 0.9)
    return jax.jit(
        lambda: (
            rlax.lambda_returns(r, discount, r, 0.8),
            rlax.td_learning(r[0], r[1], discount[0], r[2]),
            rlax.vtrace(r, r + 1, r, discount, jnp.ones(5)),
        )
    )


def rlax_losses():
    q = jnp.linspace(-1.0, 1.0, 6).reshape(2, 3)
    a = jnp.array([0, 2])
    return jax.jit(
        lambda: (
            jax.vmap(rlax.q_learning)(q, a, a.astype(float), jnp.ones(2), q),
            rlax.policy_gradient_loss(q, a, jnp.ones(2), jnp.ones(2)),
            rlax.entropy_loss(q, jnp.ones(2)),
        )
    )


def distrax_distributions():
    @jax.jit
    def run():
        normal = distrax.Normal(jnp.zeros(2), jnp.ones(2))
        mixed = distrax.MixtureSameFamily(
            distrax.Categorical(logits=jnp.zeros(2)), distrax.Normal(jnp.arange(2.0), 1.0)
        )
        x = normal.sample(seed=KEY, sample_shape=(3,))
        return x, normal.log_prob(x), mixed.log_prob(x[..., 0]), normal.entropy()

    return run


def distrax_bijectors():
    @jax.jit
    def run():
        chain = distrax.Chain([distrax.Tanh(), distrax.ScalarAffine(0.5, 2.0)])
        moved = distrax.Transformed(distrax.Normal(0.0, 1.0), chain)
        x = jnp.linspace(-0.5, 0.5, 3)
        return chain.forward_and_log_det(x), moved.log_prob(x)

    return run


def penzai_mlp():
    model = pz.nn.Sequential(
        [
            pz.nn.Affine.from_config("first", KEY, {"x": 3}, {"x": 4}),
            pz.nn.Elementwise(jnp.tanh),
            pz.nn.Affine.from_config("last", KEY, {"x": 4}, {"x": 2}),
        ]
    )
    x = pz.nx.wrap(jnp.arange(6.0).reshape(2, 3)).tag("batch", "x")
    return lambda: model(x).unwrap("batch", "x")


def penzai_named_axes():
    x = pz.nx.wrap(jnp.arange(6.0).reshape(2, 3)).tag("a", "b")

    def run():
        y = pz.nx.nmap(jnp.sum)(x.untag("b"))
        return (x + y).unwrap("a", "b"), pz.select({"w": jnp.ones(2)}).at_instances_of(
            jax.Array
        ).apply(lambda w: w * 2)

    return run


def orbax_round_trip():
    tree = {"w": jnp.arange(6.0).reshape(2, 3), "step": jnp.array(3)}

    def run():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "state"
            with ocp.StandardCheckpointer() as checkpointer:
                checkpointer.save(path, tree)
                checkpointer.wait_until_finished()
                abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)
                return checkpointer.restore(path, abstract)

    return run


def orbax_manager():
    tree = {"w": jnp.arange(4.0)}

    def run():
        with tempfile.TemporaryDirectory() as folder:
            options = ocp.CheckpointManagerOptions(max_to_keep=2)
            with ocp.CheckpointManager(folder, options=options) as manager:
                for step in range(3):
                    manager.save(step, args=ocp.args.StandardSave(tree))
                manager.wait_until_finished()
                found = manager.restore(2, args=ocp.args.StandardRestore(tree))
                return found, jnp.array(manager.all_steps())

    return run
