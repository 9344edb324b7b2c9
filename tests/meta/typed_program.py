# mypy: disallow-untyped-defs, disallow-incomplete-defs, disallow-untyped-calls, check-untyped-defs
# mypy: disallow-any-generics, disallow-subclassing-any, warn-return-any, strict-equality
# mypy: warn-unused-ignores, disallow-untyped-decorators
"""Programs as users write them, all of them correct: ``mypy --strict`` has nothing to say of them.

``test_user_types`` checks that, and runs them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

import weft
import weft.numpy as jnp
import weft.train
from weft import Array, grad, jit, lax, linen, optim, random, value_and_grad, vmap
from weft.typing import ArrayLike

Params: TypeAlias = dict[str, Array]
PyTree: TypeAlias = Any
T = TypeVar("T")
x = jnp.arange(1.0, 4.0)
key = random.key(0)


# --- gradients ------------------------------------------------------------------------------------


def scalar(a: Array, n: int = 2) -> Array:
    return jnp.sum(a**n)


def loss(p: Params, a: ArrayLike = 1.0, *, scale: float = 1.0) -> Array:
    return scale * jnp.sum(p["w"] * a)


def of_many(*arrays: Array) -> Array:
    return sum((jnp.sum(a) for a in arrays), jnp.zeros(()))


def of_number(a: float) -> float:
    return a * a


def of_arraylike(a: ArrayLike, b: ArrayLike = 1) -> Array:
    return jnp.sum(jnp.asarray(a) * b)


def of_numpy(a: np.ndarray) -> Any:
    return a.sum()


def of_anything(a: Any, b: Any = 1.0) -> Any:
    return jnp.sum(a) * b


def of_tree(tree: object) -> Array:
    return of_many(*[jnp.asarray(leaf) for leaf in weft.tree.leaves(tree)])


def of_type(tree: T, scale: float) -> Array:
    return scale * of_tree(tree)


def with_metrics(p: Params, a: Array) -> tuple[Array, dict[str, Array]]:
    value = loss(p, a)
    return value, {"loss": value}


def maybe(p: Array | None, a: Array) -> Array:
    return jnp.sum(a if p is None else p * a)


def gradients() -> None:
    scalar_gradient: Array = grad(scalar)(x)
    grad(scalar)(x, 3), grad(scalar)(x, n=3), grad(scalar, 0)(x)
    print(scalar_gradient.shape, grad(grad(lambda a: a**3))(2.0))
    gradient: Params = grad(loss)({"w": x}, 2.0, scale=0.5)
    gradient = grad(loss)({"w": x}, np.ones(3))
    gradient = jit(grad(loss))({"w": x})
    gradient = grad(jit(loss))({"w": x}, x)
    gradient = grad(weft.checkpoint(loss))({"w": x}, a=x)
    gradient["w"].block_until_ready()
    print(gradient["w"][0] + 1, float(gradient["w"].sum()))
    grad(of_many)(x, x), grad(of_many, argnums=(0, 1))(x, x)
    first, second = grad(of_many, (0, 1))(x, x)
    print(first + second)
    print(grad(of_number)(2.0).item(), grad(of_arraylike)(2.0).sum(), grad(of_arraylike)(x, b=x))
    print(grad(of_anything)(2.0), grad(of_anything, argnums=1)(2.0, 3.0).shape)
    print(grad(of_tree)({"a": x})["a"], grad(of_type)([x, x], 2.0)[0])
    gradient, metrics = grad(with_metrics, has_aux=True)({"w": x}, x)
    print(metrics["loss"].item(), gradient["w"])
    value, gradient = value_and_grad(loss)({"w": x}, 2.0)
    (value, metrics), gradient = value_and_grad(with_metrics, has_aux=True)({"w": x}, x)
    (value, metrics), gradient = jit(value_and_grad(with_metrics, has_aux=True))({"w": x}, x)
    value, (first, second) = value_and_grad(of_many, argnums=(0, 1))(x, x)
    print(value.item(), metrics, first, second)
    both = [value_and_grad(of_many, argnums=n)(x, x) for n in (0, 1)]
    aux = bool(both)
    print(grad(with_metrics, has_aux=aux)({"w": x}, x))
    print(grad(lambda p: jnp.sum(p["w"] ** 2))({"w": x})["w"])
    print(grad(lambda a, b: jnp.sum(a * b), argnums=(0, 1))(x, x)[1])
    print(grad(lambda a: (jnp.sum(a), a), has_aux=True)(x)[1])
    print(value_and_grad(lambda a: jnp.sum(a**2))(x)[0].item())
    print(grad(partial(scalar, n=3))(x), grad(partial(loss, scale=2.0))({"w": x})["w"])
    print(list(map(grad(scalar), [x, x])), vmap(grad(of_arraylike))(x))
    options: dict[str, Any] = {"argnums": (0,), "has_aux": True}
    print(grad(with_metrics, **options)({"w": x}, x), grad(with_metrics, 0, True)({"w": x}, x)[1])
    by_name: dict[str, Callable[[Array], Array]] = {"a": grad(scalar), "b": grad(lambda a: a[0])}
    print(vmap(by_name["a"])(x).shape, vmap(grad(lambda w, a: w * a), (None, 0))(1.0, x).shape)
    print(grad(maybe)(x, x), grad(maybe, argnums=1)(None, x), jnp.finfo(x.dtype).eps)
    print(grad(scalar).__name__, grad(lambda z: (z * z).real, holomorphic=False)(2.0))
    print(weft.jacfwd(jnp.sin)(x) + 1, weft.jacrev(lambda a: a**2)(x), weft.hessian(scalar)(x).T)
    print(weft.jacfwd(of_many, argnums=(0, 1))(x, x)[0], weft.hessian(loss)({"w": x})["w"])
    y, dy = weft.jvp(jnp.sin, (x,), (jnp.ones(3),))
    y, dy = weft.jvp(lambda a: a * 2, [1.0], [1.0])
    y, dy, metrics = weft.jvp(with_metrics, ({"w": x}, x), ({"w": x}, x), has_aux=True)
    y, pull = weft.vjp(scalar, x)
    (ct,) = pull(y)
    y, pull, metrics = weft.vjp(with_metrics, {"w": x}, x, has_aux=True)
    print(dy, ct, pull(y)[0]["w"], metrics)
    y, push = weft.linearize(jnp.cos, x)
    y, push = weft.linearize(lambda a: a * a, 2.0)
    print(push(1.0), weft.linear_transpose(lambda a: 2.0 * a, x)(x)[0])


# --- classes --------------------------------------------------------------------------------------


class Rule(Protocol):
    def __call__(self, p: Params, /, a: Array) -> Array: ...


class Problem:
    def __init__(self, target: Array) -> None:
        self.target = target

    def loss(self, p: Params, a: Array) -> Array:
        return jnp.sum((p["w"] * a - self.target) ** 2)

    def __call__(self, p: Params, a: Array) -> Array:
        return self.loss(p, a)

    @partial(jit, static_argnums=0)
    def step(self, p: Params, a: Array) -> Params:
        gradient = grad(self.loss)(p, a)
        return weft.tree.map(lambda w, g: w - 0.1 * g, p, gradient)

    @jit(static_argnums=(0,))
    def other_step(self, p: Params, a: Array) -> Params:
        return {"w": p["w"] - grad(self)(p, a)["w"]}

    @staticmethod
    @jit
    def norm(a: Array) -> Array:
        return jnp.linalg.norm(a)

    @functools.cached_property
    def gradient(self) -> Callable[[Params, Array], Params]:
        return jit(grad(self.loss))


@weft.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    params: Params
    count: Array

    @jit
    def next(self, gradient: Params) -> State:
        params = weft.tree.map(lambda w, g: w - g, self.params, gradient)
        return dataclasses.replace(self, params=params, count=self.count + 1)


class Moments(NamedTuple):
    mean: Array
    size: Array


def use_rule(rule: Rule, p: Params) -> Params:
    return grad(rule)(p, x)


def classes() -> None:
    problem = Problem(x)
    p = {"w": jnp.ones(3)}
    p = problem.step(p, x)
    p = problem.other_step(p, x)
    p = problem.gradient(p, x)
    p = use_rule(problem, p)
    print(problem.norm(x) + 1, Problem.norm(x).shape, jit(problem.loss)(p, x))
    state = State(p, jnp.zeros((), int)).next(p)
    state = jit(lambda s: s)(state)
    state = weft.block_until_ready(state)
    state = weft.device_put(state)
    state = lax.stop_gradient(state)
    print(state.params["w"], state.count + 1)
    value, gradient = value_and_grad(lambda s: jnp.sum(s.params["w"]), allow_int=True)(state)
    print(value, gradient.params)
    moments = Moments(x, jnp.ones(()))
    moments = weft.tree.map(jnp.zeros_like, moments)
    print(moments.mean[0], weft.tree.map(jnp.shape, moments))


# --- jit and vmap ---------------------------------------------------------------------------------


@jit
def doubled(a: Array, n: int = 1) -> Array:
    return 2 * a * n


@partial(jit, static_argnames=("n", "mode"))
def repeated(a: Array, *, n: int, mode: str = "same") -> Array:
    return jnp.tile(a, n)


@jit(static_argnames="n", donate_argnums=())
def tiled(a: Array, n: int) -> Array:
    return jnp.tile(a, n)


@partial(vmap, in_axes=(0, None))
def scaled(a: Array, b: float) -> Array:
    return a * b


@vmap
def outer(a: Array) -> Array:
    return a * x


@weft.custom_jvp
def clipped(a: Array) -> Array:
    return jnp.clip(a, 0, 1)


@clipped.defjvp
def clipped_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    return clipped(*primals), tangents[0]


@partial(weft.custom_vjp, nondiff_argnums=(0,))
def power(n: int, a: Array) -> Array:
    return a**n


def power_fwd(n: int, a: Array) -> tuple[Array, Array]:
    return power(n, a), a


def power_bwd(n: int, a: Array, ct: Array) -> tuple[Array]:
    return (n * a ** (n - 1) * ct,)


power.defvjp(power_fwd, power_bwd)


@partial(weft.checkpoint, static_argnums=(1,))
def rematerialised(a: Array, n: int) -> Array:
    return a**n


@partial(value_and_grad, has_aux=True)
def decorated(p: Params) -> tuple[Array, int]:
    return jnp.sum(p["w"]), 1


@partial(grad, argnums=(0, 1))
def decorated_pair(a: Array, b: Array) -> Array:
    return jnp.sum(a * b)


def compose(*functions: Callable[..., Array]) -> Callable[..., Array]:
    return functions[0]


def functions() -> None:
    print(doubled(x).shape, doubled(x, n=2), doubled.lower(x).as_text()[:1])
    print(repeated(x, n=2), tiled(x, n=2) + 1, tiled(x, 2), scaled(x, 2.0), outer(x).T)
    print(jit(lambda a, b=1: a + b)(1.0), jit(partial(scalar, n=3))(x), jit(jnp.sin)(x))
    print(jit(scalar, static_argnums=1)(x, 3), jit(scalar, static_argnames=["n"])(x, n=3))
    print(vmap(scalar)(x), vmap(scalar, in_axes=(0, None))(x, 2), vmap(vmap(jnp.sin))(x[None]))
    print(vmap(lambda a, b: a + b, (0, None), out_axes=0)(x, 1.0), vmap(loss, in_axes=({"w": 0},)))
    print(vmap(grad(clipped))(x), power(2, x), rematerialised(x, 2), compose(doubled, jnp.sin)(x))
    (value, count), gradient = decorated({"w": x})
    a, b = decorated_pair(x, x)
    print(value, count, gradient["w"], a + b)
    print(weft.make_jaxpr(scalar)(x), weft.eval_shape(scalar, x).shape, weft.named_call(scalar)(x))
    mesh = weft.make_mesh((1,), ("i",), (weft.sharding.AxisType.Auto,))
    spec = weft.P("i")
    divided = weft.shard_map(lambda a: a * 2, mesh=mesh, in_specs=spec, out_specs=spec)
    print(divided(x), weft.pmap(lambda a: lax.psum(a, "i"), axis_name="i")(x[None]))
    print(weft.device_get({"w": x})["w"].shape, weft.device_get(x).nbytes, weft.device_put(2.0) + 1)


# --- control flow ---------------------------------------------------------------------------------


def add_one(i: int, a: Array) -> Array:
    return a + i


def advance(carry: tuple[Array, Array], a: Array) -> tuple[tuple[Array, Array], Array]:
    total, count = carry
    return (total + a, count + 1), total


def advance_number(total: Array, a: Array) -> tuple[Array, None]:
    return total + a, None


def control(n: int = 3) -> None:
    print(lax.fori_loop(0, n, add_one, x).shape, lax.fori_loop(0, n, add_one, 0.0).shape)
    print(lax.fori_loop(0, n, lambda i, a: a * i, 1.0), lax.fori_loop(0, n, add_one, np.ones(3)))
    a, b = lax.fori_loop(0, n, lambda i, c: (c[1], c[0]), (x, x))
    (total, count), totals = lax.scan(advance, (0.0, 0), x)
    (total, count), totals = lax.scan(advance, (jnp.zeros(()), jnp.zeros((), int)), np.ones(3))
    print(a + b, total + count, totals.shape, lax.scan(advance_number, 0.0, x)[0].shape)
    last, ys = lax.scan(lambda c, _: (c + 1, {"c": c}), jnp.zeros(()), None, length=3)
    print(last.shape, ys["c"], lax.scan(lambda c, a: (c + a[0], a[1]), 0.0, (x, x)))
    print(lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (0, x))[1].shape)
    print(
        lax.while_loop(lambda c: c < 3, lambda c: c + 1, 0), lax.while_loop(jnp.any, invert, x > 0)
    )
    print(lax.cond(x[0] > 0, lambda a: a, lambda a: -a, x).shape, lax.cond(True, lambda: 1.0, one))
    print(lax.cond(True, scalar, lambda a: 0.0, x), lax.cond(n, pair_of, other_pair, x)[0].shape)
    print(lax.cond(True, 1.0, jnp.sin, 2.0, jnp.cos), lax.switch(1, [jnp.sin, jnp.cos], x).shape)
    print(lax.switch(n, [lambda a: a, lambda a: 2 * a], x), lax.map(lambda a: a + 1, x).shape)
    print(lax.map(lambda a: {"y": a}, x)["y"], lax.associative_scan(jnp.add, x).shape)
    print(lax.associative_scan(lambda a, b: (a[0] + b[0], a[1]), (x, x))[0])
    print(lax.sort(x)[0], lax.sort((x, x), num_keys=1)[1], lax.top_k(x, 2)[0], lax.rsqrt(x).shape)
    sizes: Sequence[int] = lax.dynamic_slice(x, (0,), (2,)).shape
    print(sizes, lax.reduce(x, 0.0, lax.add, (0,)) + 1, lax.pad(x, 0.0, [(1, 1, 0)]).shape)
    print(
        lax.reduce_window(x, -np.inf, lax.max, (2,), (1,), "VALID").shape, lax.select(x > 1, x, x)
    )
    size = vmap(lambda a: a / lax.psum(1, "i"), axis_name="i")(x)
    print(size, vmap(lambda a: lax.pmean({"a": a}, "i")["a"], axis_name="i")(x))


def invert(a: Array) -> Array:
    return ~(a | True)


def one() -> float:
    return 1.0


def pair_of(a: Array) -> tuple[Array, Array]:
    return a, a


def other_pair(a: Array) -> tuple[Array, Array]:
    return -a, a


# --- arrays ---------------------------------------------------------------------------------------


def arrays() -> None:
    values, counts = jnp.unique(x, return_counts=True)
    (places,) = jnp.where(x > 1)
    rows, columns = jnp.nonzero(x[None], size=3)
    print(
        jnp.unique(x) + 1, values, counts, places + 1, rows, columns, jnp.where(x > 1, x, 0).sum()
    )
    u, s, vh = jnp.linalg.svd(x[None], full_matrices=False)
    q, r = jnp.linalg.qr(x[None].T)
    w, v = jnp.linalg.eigh(jnp.eye(3))
    result = jnp.linalg.eigh(jnp.eye(3))
    sign, logdet = jnp.linalg.slogdet(jnp.eye(3))
    print(u, s, vh, q, r, w, v, sign, logdet, result.eigenvalues, jnp.linalg.svd(x[None]).S)
    print(jnp.linalg.svd(x[None], compute_uv=False).shape, jnp.linalg.qr(x[None], mode="r").shape)
    points, step = jnp.linspace(0, 1, 5, retstep=True)
    mean, weights = jnp.average(x, returned=True)
    heights, edges = jnp.histogram(x, bins=3)
    print(points, step, mean + weights, heights.sum(), edges[0], jnp.linspace(0.0, 1.0).mean())
    print(jnp.atleast_2d(x).shape, [a.shape for a in jnp.atleast_2d(x, 1.0)], jnp.gradient(x) * 2)
    dy, dx = jnp.gradient(jnp.ones((3, 3)))
    c = jnp.polyfit(x, x, 1)
    c, cov = jnp.polyfit(x, jnp.array([1.0, 2.5, 3.0, 1.0])[:3], 0, cov=True)
    a, b = jnp.meshgrid(x, x)
    k1, k2 = random.split(key)
    k3, *keys = random.split(key, 3)
    print(dy, dx, c[0], cov, a + b, random.normal(k1, (3,)), random.uniform(k2), k3, len(keys))
    print(x.at[0].set(1.0), x @ x, 2 * x, np.ones(3) * x, x.T, x[None, :], x[x > 1], -x, x == 1)
    mean_value: float = float(x.mean())
    item: float = x[0].item()
    total: float = x.sum().item() + mean_value + item
    print(
        total, x.astype(jnp.float16), x.reshape(3, 1), x.dtype == jnp.float32, np.asarray(x).sum()
    )
    print([float(a) for a in x], len(x), x.ndim, x.size, jnp.einsum("i,i->", x, x), jnp.fft.rfft(x))
    print(weft.nn.logsumexp(x) + 1, weft.nn.softmax(x).sum(), weft.nn.relu(x).shape)
    dtype = jnp.result_type(x, 1)
    print(jnp.zeros(3, dtype), jnp.ones_like(x, dtype=int), jnp.array([1, 2], jnp.int32).tolist())


# --- trees ----------------------------------------------------------------------------------------


def trees() -> None:
    p: Params = {"w": x, "b": jnp.zeros(())}
    p = weft.tree.map(jnp.zeros_like, p)
    p = weft.tree.map(lambda a, b: a + b, p, p)
    sizes = weft.tree.map(jnp.size, p)
    print(sizes["w"] + 1, weft.tree.map(lambda a: a.shape, p)["w"], weft.tree.leaves(p)[0])
    nested = {"a": {"b": 1.0, "c": [1, 2]}, "d": (x, None)}
    print(
        weft.tree.map(jnp.asarray, nested)["a"]["b"].shape, weft.tree.map(jnp.asarray, [1, 2])[0].T
    )
    print(weft.tree.map(lambda a: a, (x, 1)), weft.tree.reduce(lambda a, b: a + b, [1, 2], 0))
    print(weft.tree.reduce(jnp.add, [x, x], 0.0).shape, weft.tree.structure(p).num_leaves)
    leaves, treedef = weft.tree.flatten(nested)
    print(
        weft.tree.unflatten(treedef, leaves)["a"], weft.tree.map_with_path(lambda k, a: a, p)["w"]
    )


# --- training -------------------------------------------------------------------------------------


class Net(linen.Module):
    width: int
    rate: float = 0.1
    act: Callable[[Array], Array] = weft.nn.relu

    @linen.compact
    def __call__(self, a: Array, *, train: bool = False) -> Array:
        a = self.act(linen.Dense(self.width, kernel_init=linen.initializers.zeros)(a))
        a = linen.Dropout(self.rate, deterministic=not train)(a)
        return linen.LayerNorm()(a)


def of_shape(k: Array, shape: tuple[int, ...], dtype: Any = jnp.float32) -> Array:
    return jnp.ones(shape, dtype)


class Encoder(linen.Module):
    layers: Sequence[int] = (4, 4)
    train: bool | None = None
    head: linen.Module | None = None

    def setup(self) -> None:
        self.blocks = [Net(n) for n in self.layers]
        self.scale = self.param("scale", linen.initializers.ones, (4,))

    def __call__(self, a: Array, train: bool | None = None) -> Array:
        train = linen.merge_param("train", self.train, train)
        for block in self.blocks:
            a = block(a, train=train)
        return self.scale * (a if self.head is None else self.head(a))


@linen.struct.dataclass
class Batch:
    inputs: Array
    name: str = linen.struct.field(pytree_node=False, default="train")


class Counters(linen.struct.PyTreeNode):
    steps: Array
    name: str = "train"


class TrainState(NamedTuple):
    params: Mapping[str, Any]
    opt_state: optim.OptState
    steps: int | Array = 0


def training() -> None:
    model, tx = Net(3), optim.chain(optim.clip_by_global_norm(1.0), optim.adam(1e-3))
    variables = model.init(key, x[None])
    encoder = Encoder((3, 4), head=linen.Dense(4, kernel_init=of_shape))
    print(encoder.apply(encoder.init(key, x[None], False), x[None], train=False).shape)

    def objective(params: Mapping[str, Any], batch: Array, module: linen.Module) -> Array:
        out = module.apply({"params": params}, batch, train=True, rngs={"dropout": key})
        return jnp.mean(optim.l2_loss(out))

    @partial(jit, static_argnums=(2,))
    def update(state: TrainState, batch: Array, module: linen.Module) -> tuple[TrainState, Array]:
        value, gradient = value_and_grad(objective)(state.params, batch, module)
        updates, opt_state = tx.update(gradient, state.opt_state, state.params)
        params = optim.apply_updates(state.params, updates)
        return TrainState(params, opt_state, state.steps + 1), value

    train_state = weft.train.TrainState.create(
        apply_fn=model.apply, params=variables["params"], tx=optim.sgd(0.1, momentum=0.9)
    )
    train_state = train_state.apply_gradients(grads=variables["params"]).replace(step=5)
    print(train_state.step + 1, train_state.apply_fn({"params": train_state.params}, x[None]).sum())
    frozen = linen.FrozenDict({"a": x})
    print(frozen.copy({"b": x})["b"], frozen.pop("a")[1], len(frozen), [*frozen.items()])
    batch, counters = Batch(x, name="test"), Counters(jnp.zeros(())).replace(name="test")
    print(jit(lambda b: b)(batch).inputs, weft.tree.leaves(counters), counters.steps + 1)
    state = TrainState(variables["params"], tx.init(variables["params"]))
    for _ in range(2):
        state, value = update(state, x[None], model)
        print(float(value), state.steps)
    schedule = optim.warmup_cosine_decay_schedule(0.0, 1.0, 1, 10)
    print(schedule(1), optim.sgd(schedule).init(x))
    print(optim.sgd(np.float32(0.1)).init(x), optim.tree.norm({"w": x}) + 1)
    print(optim.tree.zeros_like({"w": x})["w"].shape, optim.projections.projection_simplex(x, 2.0))
    w = x
    w = optim.apply_updates(w, optim.sgd(0.1).update(w, optim.sgd(0.1).init(w))[0])
    w = optim.incremental_update(w, x, 0.1)
    dense = linen.Dense(3, use_bias=False)
    print(w.shape, dense.apply({"params": {"kernel": jnp.eye(3)}}, x))


def main() -> None:
    for part in (gradients, classes, functions, arrays, trees, training):
        part()
    control()


if __name__ == "__main__":
    main()
