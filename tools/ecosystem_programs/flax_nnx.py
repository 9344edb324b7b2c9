"""flax.nnx."""

import jax
import jax.numpy as jnp
import optax
from flax import nnx


class MLP(nnx.Module):
    def __init__(self, rngs):
        # No bias before a norm: its derivative is rounding alone, which adam makes large.
        self.first = nnx.Linear(4, 16, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.drop = nnx.Dropout(0.2, rngs=rngs)
        self.last = nnx.Linear(16, 1, rngs=rngs)

    def __call__(self, x):
        return self.last(self.drop(nnx.relu(self.norm(self.first(x)))))


def data():
    return jax.random.normal(jax.random.key(1), (8, 4))


def linear_layer():
    layer = nnx.Linear(4, 3, rngs=nnx.Rngs(0))
    return lambda: layer(data())


def split_merge():
    graphdef, state = nnx.split(MLP(nnx.Rngs(0)))

    @jax.jit
    def apply(state, x):
        model = nnx.merge(graphdef, state)
        model.eval()
        return model(x)

    return lambda: apply(state, data())


def training():
    x = data()

    @nnx.jit
    def step(model, optimizer):
        def loss(model):
            return jnp.mean((model(x) - 1.0) ** 2)

        value, grads = nnx.value_and_grad(loss)(model)
        optimizer.update(model, grads)
        return value

    def run():
        model = MLP(nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.adam(1e-2), wrt=nnx.Param)
        return [step(model, optimizer) for _ in range(4)], nnx.state(model, nnx.Param)

    return run


def attention_and_lstm():
    attention = nnx.MultiHeadAttention(2, 8, decode=False, rngs=nnx.Rngs(0))
    cell = nnx.RNN(nnx.LSTMCell(8, 4, rngs=nnx.Rngs(1)))
    x = jax.random.normal(jax.random.key(1), (2, 5, 8))
    return lambda: (attention(x), cell(x))


def vmap_and_scan():
    @nnx.vmap(in_axes=0)
    def make(key):
        return nnx.Linear(4, 4, rngs=nnx.Rngs(params=key))

    layers = make(jax.random.split(jax.random.key(0), 3))

    @nnx.scan(in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
    def forward(x, layer):
        return nnx.tanh(layer(x))

    return lambda: forward(data(), layers)


def conv_and_pool():
    conv = nnx.Conv(2, 4, (3, 3), rngs=nnx.Rngs(0))
    x = jax.random.normal(jax.random.key(1), (2, 8, 8, 2))
    return lambda: nnx.avg_pool(conv(x), (2, 2), (2, 2))


def embedding_and_norms():
    rngs = nnx.Rngs(0)
    embed, layer, rms = (
        nnx.Embed(10, 8, rngs=rngs),
        nnx.LayerNorm(8, rngs=rngs),
        nnx.RMSNorm(8, rngs=rngs),
    )
    group = nnx.GroupNorm(8, num_groups=2, rngs=rngs)
    tokens = jnp.arange(6).reshape(2, 3)
    return lambda: group(rms(layer(embed(tokens))))


def functional_training():
    graphdef, params, rest = nnx.split(MLP(nnx.Rngs(0)), nnx.Param, ...)
    optimizer = optax.adam(1e-2)
    x = data()

    @jax.jit
    def step(params, rest, state):
        def loss(params):
            model = nnx.merge(graphdef, params, rest, copy=True)
            value = jnp.mean((model(x) - 1.0) ** 2)
            return value, nnx.split(model, nnx.Param, ...)[2]

        (value, rest), grads = jax.value_and_grad(loss, has_aux=True)(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), rest, state, value

    def run():
        now, kept, state, values = params, rest, optimizer.init(params), []
        for _ in range(4):
            now, kept, state, value = step(now, kept, state)
            values.append(value)
        return values, now

    return run


def gradients_of_some_parameters():
    model = MLP(nnx.Rngs(0))
    model.eval()
    only_kernels = nnx.All(nnx.Param, nnx.PathContains("kernel"))
    x = data()

    @nnx.jit
    def gradient(model):
        loss = lambda model: jnp.sum(model(x) ** 2)
        return nnx.grad(loss, argnums=nnx.DiffState(0, only_kernels))(model)

    return lambda: gradient(model)


def filters_of_state():
    model = MLP(nnx.Rngs(0))
    params, stats, _ = nnx.split_state(nnx.state(model), nnx.Param, nnx.BatchStat, ...)
    return lambda: (params, stats, jax.tree.map(lambda x: x, nnx.merge_state(params, stats)))


def ensemble_by_vmap():
    @nnx.split_rngs(splits=4)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def make(rngs):
        return nnx.Linear(4, 3, rngs=rngs)

    models = make(nnx.Rngs(0))
    forward = nnx.jit(nnx.vmap(lambda model, x: model(x), in_axes=(0, None)))
    return lambda: forward(models, data())


def layers_by_scan():
    class Block(nnx.Module):
        def __init__(self, rngs):
            self.linear = nnx.Linear(4, 4, rngs=rngs)
            self.norm = nnx.LayerNorm(4, rngs=rngs)

        def __call__(self, x):
            return self.norm(nnx.gelu(self.linear(x)) + x)

    @nnx.split_rngs(splits=3)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def make(rngs):
        return Block(rngs)

    blocks = make(nnx.Rngs(0))

    @nnx.jit
    def forward(blocks, x):
        body = nnx.scan(lambda x, block: block(x), in_axes=(nnx.Carry, 0), out_axes=nnx.Carry)
        return body(x, blocks)

    return lambda: forward(blocks, data())


def rematerialised():
    model = MLP(nnx.Rngs(0))
    model.eval()

    @nnx.jit
    def gradient(model, x):
        loss = lambda model: jnp.sum(nnx.remat(lambda m, x: m(x))(model, x) ** 2)
        return nnx.grad(loss)(model)

    return lambda: gradient(model, data())


def conditional_layers():
    rngs = nnx.Rngs(0)
    first, second = nnx.Linear(4, 4, rngs=rngs), nnx.Linear(4, 4, rngs=rngs)

    @nnx.jit
    def forward(on, first, second, x):
        choose = lambda first, second, x: first(x)
        other = lambda first, second, x: second(first(x))
        return nnx.cond(on, choose, other, first, second, x)

    return lambda: (forward(True, first, second, data()), forward(False, first, second, data()))


def counting_variables():
    class Count(nnx.Variable):
        pass

    class Counter(nnx.Module):
        def __init__(self):
            self.count = Count(jnp.array(0))
            self.last = nnx.Variable(jnp.zeros(3))

        def __call__(self, x):
            self.count.value += 1
            self.last.value = x
            return x * self.count.value

    @nnx.jit
    def step(counter, x):
        return counter(x)

    def run():
        counter = Counter()
        outs = [step(counter, jnp.full(3, float(i))) for i in range(3)]
        return outs, nnx.state(counter, Count), counter.last.value

    return run


def random_streams():
    rngs = nnx.Rngs(0, params=1, dropout=2)
    drop = nnx.Dropout(0.5, rngs=rngs)

    def run():
        nnx.reseed(drop, dropout=3)
        return drop(jnp.ones((4, 5))), rngs.params.key.value

    return run


def sowing_and_intermediates():
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.linear = nnx.Linear(4, 3, rngs=rngs)

        def __call__(self, x):
            x = self.linear(x)
            self.sow(nnx.Intermediate, "hidden", x)
            return jnp.sum(x)

    def run():
        net = Net(nnx.Rngs(0))
        out = net(data())
        return out, nnx.pop(net, nnx.Intermediate)

    return run


def low_rank_adapters():
    linear = nnx.LoRALinear(4, 3, lora_rank=2, lora_dtype=jnp.float32, rngs=nnx.Rngs(0))

    @nnx.jit
    def gradient(linear, x):
        loss = lambda linear: jnp.sum(linear(x) ** 2)
        return nnx.grad(loss, argnums=nnx.DiffState(0, nnx.LoRAParam))(linear)

    return lambda: gradient(linear, data())


def autoregressive_decoding():
    rngs = nnx.Rngs(0)
    attention = nnx.MultiHeadAttention(2, 8, decode=True, rngs=rngs)
    x = jax.random.normal(jax.random.key(1), (1, 4, 8))

    def run():
        attention.init_cache(x.shape)
        step = nnx.jit(lambda attention, x: attention(x))
        return [step(attention, x[:, i : i + 1]) for i in range(4)]

    return run


def shapes_and_copies():
    shapes = nnx.eval_shape(lambda: MLP(nnx.Rngs(0)))
    model = MLP(nnx.Rngs(0))
    clone = nnx.clone(model)
    nnx.update(clone, jax.tree.map(lambda x: x + 1 if x.dtype == jnp.float32 else x,
                                   nnx.state(model, nnx.Param)))  # fmt: skip
    sizes = [jnp.array(x.shape).sum() for x in jax.tree.leaves(nnx.state(shapes, nnx.Param))]
    model.eval(), clone.eval()
    return lambda: (sizes, model(data()), clone(data()))
