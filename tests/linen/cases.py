"""The cases: layers with their options, collections, lifted transformations, and wrong uses."""

from functools import partial

from tests.linen.harness import Case, array, integers, keys, layer, total

FAMILIES: dict[str, list[Case]] = {}


def family(name: str):
    """Add what a generator of (name, function) yields, once in float32 and once in float64."""

    def add(generate):
        FAMILIES[name] = [Case(f"{name}/{label}", run) for label, run in generate()]
        names = [case.name for case in FAMILIES[name]]
        assert len(set(names)) == len(names), names
        return generate

    return add


def options(cls: str, shapes, configs, streams=("params",), mutable=False, typed=True, **call):
    """One case a configuration of a layer, named after its options."""
    for config in configs:
        label = ",".join(f"{k}={_label(v)}" for k, v in config.items()) or "default"

        def run(J, config=config):
            given = {k: v(J) if getattr(v, "late", False) else v for k, v in config.items()}
            if typed:
                given.setdefault("param_dtype", J.dtype)
            module = getattr(J.nn, cls)(**given)
            inputs = [array(J, *shape, seed=i) for i, shape in enumerate(shapes)]
            late = {k: v(J) if getattr(v, "late", False) else v for k, v in call.items()}
            return layer(J, module, *inputs, streams=streams, mutable=mutable, **late)

        yield f"{cls}({label}){'x'.join(map(str, shapes[0]))}", run


def _label(value) -> str:
    return getattr(value, "label", None) or str(value).replace(" ", "")


def late(label: str):
    """Mark a value that is made from the library."""

    def mark(function):
        function.late, function.label = True, label
        return function

    return mark


def init(name: str, *args):
    @late(f"{name}{args or ''}")
    def make(J):
        found = getattr(J.nn.initializers, name)
        return found(*args) if args else found

    return make


def bf16(J):
    return J.jnp.bfloat16


bf16.late, bf16.label = True, "bfloat16"


@family("dense")
def dense():
    kernels = ["zeros_init", "he_normal", "xavier_uniform", "lecun_uniform", "glorot_normal"]
    configs = [
        {"features": 5},
        {"features": 1},
        {"features": 5, "use_bias": False},
        {"features": 5, "bias_init": init("normal", 1.0)},
        {"features": 5, "bias_init": init("ones")},
        {"features": 5, "kernel_init": init("orthogonal", 2.0)},
        {"features": 5, "kernel_init": init("truncated_normal", 0.5)},
        {"features": 5, "kernel_init": init("uniform", 0.3)},
        {"features": 5, "kernel_init": init("constant", 0.1)},
        {"features": 5, "dtype": bf16},
        {"features": 5, "precision": "highest"},
    ]
    yield from options("Dense", [(3, 4)], configs)
    for shape in [(4,), (2, 3, 4), (2, 1, 3, 4)]:
        yield from options("Dense", [shape], configs[:3])
    for name in kernels:

        def run(J, name=name):
            start = getattr(J.nn.initializers, name)()
            return layer(J, J.nn.Dense(3, kernel_init=start, param_dtype=J.dtype), array(J, 2, 6))

        yield f"Dense(kernel_init={name}())", run
    general = [
        {"features": 5},
        {"features": (2, 3)},
        {"features": (2, 3), "axis": (-2, -1)},
        {"features": 5, "axis": 0},
        {"features": 5, "axis": (0, 2)},
        {"features": 5, "use_bias": False},
        {"features": 5, "batch_dims": (0,)},
        {"features": (3, 2), "axis": (-1, -2), "batch_dims": (0,)},
        {"features": 5, "bias_init": init("normal", 1.0)},
        {"features": (2, 2), "kernel_init": init("orthogonal", 1.0)},
        {"features": 5, "batch_dims": (0, 1), "axis": -1},
    ]
    yield from options("DenseGeneral", [(2, 3, 4)], general)
    einsums = [
        {"shape": (4, 5), "einsum_str": "abc,cd->abd"},
        {"shape": (4, 2, 3), "einsum_str": "abc,cde->abde"},
        {"shape": (3, 4, 5), "einsum_str": "abc,bcd->ad"},
        {"shape": (4, 5), "einsum_str": "...c,cd->...d"},
        {"shape": (4, 5), "einsum_str": "abc,cd->abd", "use_bias": False},
        {"shape": (3, 4, 5), "einsum_str": "abc,bcd->bad", "bias_init": init("normal", 1.0)},
    ]
    yield from options("Einsum", [(2, 3, 4)], einsums)
    for config in [(7, 3), (1, 3), (7, 1)]:

        def embed(J, config=config):
            module = J.nn.Embed(*config, param_dtype=J.dtype)
            return layer(J, module, integers(J, 2, 4, high=config[0]))

        yield f"Embed{config}", embed

    def attend(J):
        module = J.nn.Embed(7, 3, param_dtype=J.dtype)
        variables = module.init(J.jax.random.key(0), integers(J, 2, high=7))
        return module.apply(variables, array(J, 2, 3), method="attend")

    yield "Embed.attend", attend


@late("mask")
def conv_mask(J):
    return (array(J, 3, 3, 4, 6, seed=5) > 0).astype(J.dtype)


@family("conv")
def conv():
    configs = [
        {"features": 6, "kernel_size": (3, 3)},
        {"features": 6, "kernel_size": (2, 3), "padding": "VALID"},
        {"features": 6, "kernel_size": (3, 3), "strides": 2},
        {"features": 6, "kernel_size": (3, 3), "strides": (2, 1), "padding": "VALID"},
        {"features": 6, "kernel_size": (3, 3), "padding": 1},
        {"features": 6, "kernel_size": (3, 3), "padding": (1, 2)},
        {"features": 6, "kernel_size": (3, 3), "padding": ((1, 0), (0, 2))},
        {"features": 6, "kernel_size": (3, 3), "padding": "CIRCULAR"},
        {"features": 6, "kernel_size": (3, 3), "padding": "REFLECT"},
        {"features": 6, "kernel_size": (2, 2), "padding": "CIRCULAR", "kernel_dilation": 2},
        {"features": 6, "kernel_size": (3, 3), "input_dilation": 2},
        {"features": 6, "kernel_size": (3, 3), "kernel_dilation": (1, 2)},
        {"features": 6, "kernel_size": (3, 3), "feature_group_count": 2},
        {"features": 8, "kernel_size": (3, 3), "feature_group_count": 4},
        {"features": 6, "kernel_size": (3, 3), "use_bias": False},
        {"features": 6, "kernel_size": (3, 3), "mask": conv_mask},
        {"features": 6, "kernel_size": (3, 3), "bias_init": init("normal", 1.0)},
        {"features": 6, "kernel_size": (1, 1), "kernel_init": init("he_normal")},
    ]
    configs[-1]["kernel_init"] = init("variance_scaling", 2.0, "fan_out", "uniform")
    yield from options("Conv", [(2, 5, 6, 4)], configs)
    line = [
        {"features": 3, "kernel_size": (3,)},
        {"features": 3, "kernel_size": 3},
        {"features": 3, "kernel_size": (3,), "padding": "CAUSAL"},
        {"features": 3, "kernel_size": (3,), "padding": "CAUSAL", "kernel_dilation": 2},
        {"features": 3, "kernel_size": (4,), "strides": 3},
    ]
    yield from options("Conv", [(2, 9, 4)], line)
    yield from options("Conv", [(9, 4)], line[:1])
    yield from options("Conv", [(2, 1, 9, 4)], line[:1])
    yield from options("Conv", [(1, 3, 4, 3, 2)], [{"features": 2, "kernel_size": (2, 2, 2)}])
    local = [
        {"features": 3, "kernel_size": (3,)},
        {"features": 3, "kernel_size": (2,), "strides": 2, "padding": "VALID"},
        {"features": 3, "kernel_size": (3,), "use_bias": False},
        {"features": 3, "kernel_size": (3,), "padding": "CIRCULAR"},
        {"features": 3, "kernel_size": (3,), "kernel_dilation": 2},
    ]
    yield from options("ConvLocal", [(2, 6, 4)], local)
    yield from options("ConvLocal", [(1, 4, 4, 2)], [{"features": 2, "kernel_size": (2, 2)}])
    transpose = [
        {"features": 3, "kernel_size": (3,)},
        {"features": 3, "kernel_size": 3, "strides": (2,)},
        {"features": 3, "kernel_size": (3,), "strides": (2,), "padding": "VALID"},
        {"features": 3, "kernel_size": (3,), "strides": (2,), "padding": "CIRCULAR"},
        {"features": 3, "kernel_size": (4,), "strides": (2,), "transpose_kernel": True},
        {
            "features": 3,
            "kernel_size": (4,),
            "strides": (2,),
            "padding": "CIRCULAR",
            "transpose_kernel": True,
        },
        {"features": 3, "kernel_size": (3,), "use_bias": False, "kernel_dilation": (2,)},
        {"features": 3, "kernel_size": (3,), "strides": (2,), "padding": 1},
    ]
    yield from options("ConvTranspose", [(2, 5, 4)], transpose)
    square = [{"features": 3, "kernel_size": (3, 2), "strides": (2, 3)}]
    yield from options("ConvTranspose", [(1, 4, 3, 2)], square)
    yield from options("ConvTranspose", [(4, 3, 2)], square)


@late("mask")
def row_mask(J):
    return array(J, 2, 5, 1, seed=7) > -0.5


@family("norm")
def norm():
    base = [
        {},
        {"use_bias": False},
        {"use_scale": False},
        {"epsilon": 1e-3},
        {"use_fast_variance": False},
        {"bias_init": init("normal", 1.0), "scale_init": init("uniform", 1.0)},
        {"force_float32_reductions": False},
        {"dtype": bf16},
    ]
    shape = [(2, 5, 6)]
    extra = [
        {"reduction_axes": (1, 2)},
        {"feature_axes": (1, 2)},
        {"reduction_axes": (1,), "feature_axes": (1,)},
    ]
    yield from options("LayerNorm", shape, base + extra)
    rms = [c for c in base if "use_bias" not in c and "bias_init" not in c]
    yield from options("RMSNorm", shape, rms + extra)
    groups = [{"num_groups": 3, **c} for c in base]
    groups += [{"num_groups": None, "group_size": 2}, {"num_groups": 2, "reduction_axes": (-1,)}]
    yield from options("GroupNorm", shape, groups)
    yield from options("GroupNorm", [(3, 6)], groups[:1])
    yield from options("InstanceNorm", shape, [*base, {"feature_axes": (1, 2)}])
    yield from options("InstanceNorm", [(2, 3, 4, 5)], [{}])
    batch = [
        *base,
        {"axis": 1},
        {"axis": (1, 2)},
        {"momentum": 0.5},
    ]
    training = [{"use_running_average": False, **c} for c in batch]
    running = [{"use_running_average": True, **c} for c in batch[:5]]
    changed = ["batch_stats"]
    yield from options("BatchNorm", shape, training, mutable=changed)
    yield from options("BatchNorm", [(4, 3)], training[:2], mutable=changed)
    yield from options("BatchNorm", shape, running)
    for cls in ["LayerNorm", "RMSNorm"]:
        masked = {"mask": late("mask")(lambda J: array(J, 2, 5, 6, seed=7) > -0.5)}
        for label, run in options(cls, shape, [{}, {"use_fast_variance": False}], **masked):
            yield f"{label} masked", run
    config = [{"use_running_average": False}]
    for label, run in options("BatchNorm", shape, config, mutable=changed, mask=row_mask):
        yield f"{label} masked", run

    def across(J, cls="BatchNorm"):
        module = J.nn.BatchNorm(
            use_running_average=False, axis_name="batch", param_dtype=J.dtype, momentum=0.9
        )
        x = array(J, 2, 3, 4)
        variables = module.init(J.jax.random.key(0), x[0])
        run = lambda x: module.apply(variables, x, mutable=["batch_stats"])
        return J.jax.vmap(run, axis_name="batch")(x)

    yield "BatchNorm(axis_name)", across

    def layer_across(J):
        module = J.nn.LayerNorm(axis_name="model", param_dtype=J.dtype)
        x = array(J, 2, 3, 4)
        variables = (
            module.init(J.jax.random.key(0), x[0])
            if False
            else {"params": {"scale": array(J, 4), "bias": array(J, 4, seed=1)}}
        )
        return J.jax.vmap(lambda x: module.apply(variables, x), axis_name="model")(x)

    yield "LayerNorm(axis_name)", layer_across

    def running_steps(J):
        module = J.nn.BatchNorm(momentum=0.8, param_dtype=J.dtype)
        variables = module.init(J.jax.random.key(0), array(J, 4, 3), use_running_average=False)
        for seed in range(4):
            x = array(J, 4, 3, seed=seed)
            _, updates = module.apply(
                variables, x, use_running_average=False, mutable=["batch_stats"]
            )
            variables = {**variables, **updates}
        return variables, module.apply(variables, x, use_running_average=True)

    yield "BatchNorm over four steps", running_steps
    for kwargs in [{}, {"use_scale": False}, {"feature_axes": None}, {"variable_filter": None}]:

        def weight(J, kwargs=kwargs):
            inner = J.nn.Dense(3, param_dtype=J.dtype, bias_init=J.nn.initializers.normal(1.0))
            return layer(J, J.nn.WeightNorm(inner, param_dtype=J.dtype, **kwargs), array(J, 2, 4))

        yield f"WeightNorm({kwargs})", weight
    for kwargs in [{}, {"n_steps": 3}, {"n_steps": 0}]:
        for update in (False, True):

            def spectral(J, kwargs=kwargs, update=update):
                inner = J.nn.Conv(3, (2,), param_dtype=J.dtype)
                module = J.nn.SpectralNorm(inner, param_dtype=J.dtype, **kwargs)
                changed = ["batch_stats"] if update else False
                return layer(J, module, array(J, 2, 5, 4), update_stats=update, mutable=changed)

            yield f"SpectralNorm({kwargs}, update={update})", spectral


@family("pooling")
def pooling():
    for kind in ["avg_pool", "max_pool"]:
        for label, shape, args in [
            ("plain", (2, 6, 6, 3), {"window_shape": (2, 2)}),
            ("strides", (2, 6, 6, 3), {"window_shape": (2, 3), "strides": (2, 3)}),
            ("same", (2, 5, 3), {"window_shape": (3,), "strides": (2,), "padding": "SAME"}),
            ("pairs", (2, 5, 3), {"window_shape": (3,), "padding": ((1, 1),)}),
            ("single", (6, 6, 3), {"window_shape": (2, 2), "strides": (2, 2)}),
        ]:

            def run(J, kind=kind, shape=shape, args=args):
                x = array(J, *shape)
                call = lambda x: getattr(J.nn, kind)(x, **args)
                return call(x), J.jax.grad(lambda x: total(J, call(x)))(x)

            yield f"{kind}/{label}", run

    def uncounted(J):
        args = {"padding": "SAME", "count_include_pad": False, "strides": (2,)}
        return J.nn.avg_pool(array(J, 2, 5, 3), (3,), **args)

    yield "avg_pool/uncounted", uncounted

    def general(J):
        return J.nn.pool(array(J, 2, 5, 3), 1.0, J.lax.mul, (2,), (1,), "VALID")

    yield "pool/product", general

    def prelu(J):
        return layer(J, J.nn.PReLU(param_dtype=J.dtype, negative_slope_init=0.3), array(J, 3, 4))

    yield "PReLU", prelu

    def apply_batch(J):
        dense = J.nn.Dense(3, param_dtype=J.dtype)
        variables = dense.init(J.jax.random.key(0), array(J, 2, 4))
        return J.nn.BatchApply(partial(dense.apply, variables))(array(J, 2, 5, 4))

    yield "BatchApply", apply_batch
    for name in (
        "celu elu gelu glu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid "
        "log_softmax normalize relu relu6 selu sigmoid silu soft_sign softmax softplus "
        "standardize swish tanh logsumexp"
    ).split():

        def activation(J, name=name):
            x = array(J, 3, 4)
            call = lambda x: getattr(J.nn, name)(x)
            return call(x), J.jax.grad(lambda x: total(J, call(x)))(x)

        yield name, activation


@family("stochastic")
def stochastic():
    configs = [
        {"rate": 0.5, "deterministic": False},
        {"rate": 0.0, "deterministic": False},
        {"rate": 1.0, "deterministic": False},
        {"rate": 0.5, "deterministic": True},
        {"rate": 0.3, "deterministic": False, "broadcast_dims": (0,)},
        {"rate": 0.3, "deterministic": False, "broadcast_dims": (1, 2)},
        {"rate": 0.3, "deterministic": False, "rng_collection": "other"},
    ]
    streams = ("params", "dropout", "other")
    yield from options("Dropout", [(3, 4, 5)], configs, streams=streams, typed=False)

    def given(J):
        module = J.nn.Dropout(0.5)
        return module.apply({}, array(J, 3, 4), deterministic=False, rng=J.jax.random.key(3))

    yield "Dropout(rng=)", given

    def twice(J):
        class Two(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                drop = J.nn.Dropout(0.5, deterministic=False)
                return drop(x), drop(x), J.nn.Dropout(0.5, deterministic=False)(x)

        return Two().apply({}, array(J, 3, 4), rngs=keys(J, "params", "dropout"))

    yield "Dropout called twice", twice


@late("causal")
def causal(J):
    return J.nn.make_causal_mask(J.jnp.ones((2, 5)))


@family("attention")
def attention():
    configs = [
        {"num_heads": 2},
        {"num_heads": 2, "qkv_features": 4},
        {"num_heads": 4, "out_features": 3},
        {"num_heads": 2, "use_bias": False},
        {"num_heads": 2, "normalize_qk": True},
        {"num_heads": 2, "bias_init": init("normal", 1.0)},
        {"num_heads": 2, "kernel_init": init("orthogonal", 1.0)},
        {"num_heads": 2, "out_kernel_init": init("zeros"), "out_bias_init": init("ones")},
        {"num_heads": 2, "dtype": bf16, "force_fp32_for_softmax": True},
    ]
    for cls in ["MultiHeadDotProductAttention", "MultiHeadAttention"]:
        some = configs if cls == "MultiHeadDotProductAttention" else configs[:2]
        yield from options(cls, [(2, 5, 8)], some)
    for label, run in options(
        "MultiHeadDotProductAttention", [(2, 5, 8)], configs[:4], mask=causal
    ):
        yield f"{label} causal", run
    cross = [(2, 5, 8), (2, 3, 8)]
    for label, run in options("MultiHeadDotProductAttention", cross, configs[:3]):
        yield f"{label} cross", run
    three = [(2, 5, 8), (2, 3, 6), (2, 3, 7)]
    for label, run in options("MultiHeadDotProductAttention", three, configs[:2]):
        yield f"{label} three", run
    dropping = [
        {"num_heads": 2, "dropout_rate": 0.4, "deterministic": False},
        {"num_heads": 2, "dropout_rate": 0.4, "deterministic": True},
        {
            "num_heads": 2,
            "dropout_rate": 0.4,
            "deterministic": False,
            "broadcast_dropout": False,
        },
    ]
    streams = ("params", "dropout")
    yield from options("MultiHeadDotProductAttention", [(2, 5, 8)], dropping, streams=streams)

    def decode(J):
        module = J.nn.MultiHeadDotProductAttention(2, decode=True, param_dtype=J.dtype)
        x = array(J, 2, 4, 8)
        variables = module.init(J.jax.random.key(0), x)
        outs = []
        for i in range(4):
            out, updates = module.apply(variables, x[:, i : i + 1], mutable=["cache"])
            variables = {**variables, **updates}
            outs.append(out)
        whole = J.nn.MultiHeadDotProductAttention(2, param_dtype=J.dtype)
        mask = J.nn.make_causal_mask(x[..., 0])
        return variables, outs, whole.apply({"params": variables["params"]}, x, mask=mask)

    yield "decoding with a cache", decode

    def sown(J):
        module = J.nn.MultiHeadDotProductAttention(2, param_dtype=J.dtype)
        variables = module.init(J.jax.random.key(0), array(J, 2, 5, 8))
        kwargs = {"sow_weights": True, "mutable": ["intermediates"]}
        return module.apply(variables, array(J, 2, 5, 8), **kwargs)

    yield "sown weights", sown

    def custom(J):
        def function(query, key, value, mask=None):
            return J.jnp.tanh(query + key + value)

        module = J.nn.MultiHeadDotProductAttention(2, attention_fn=function, param_dtype=J.dtype)
        return layer(J, module, array(J, 2, 5, 8))

    yield "custom attention_fn", custom
    for label, kwargs in [
        ("plain", {}),
        ("bias", {"bias": True}),
        ("mask", {"mask": True}),
        ("dropout", {"dropout_rate": 0.3, "key": True}),
    ]:

        def function(J, kwargs=kwargs):
            kwargs = dict(kwargs)
            if kwargs.pop("bias", None):
                kwargs["bias"] = array(J, 2, 2, 5, 3, seed=9)
            if kwargs.pop("mask", None):
                kwargs["mask"] = array(J, 2, 2, 5, 3, seed=9) > -1
            if kwargs.pop("key", None):
                kwargs["dropout_rng"] = J.jax.random.key(4)
            q, k, v = (
                array(J, 2, 5, 2, 4),
                array(J, 2, 3, 2, 4, seed=1),
                array(J, 2, 3, 2, 4, seed=2),
            )
            weights = J.nn.dot_product_attention_weights(q, k, **kwargs)
            return J.nn.dot_product_attention(q, k, v, **kwargs), weights

        yield f"dot_product_attention/{label}", function

    def masks(J):
        x = integers(J, 2, 4, high=3)
        a = J.nn.make_attention_mask(x > 0, x > 1)
        b = J.nn.make_causal_mask(x, extra_batch_dims=1, dtype=bool)
        c = J.nn.make_attention_mask(x, x, J.jnp.equal, extra_batch_dims=1)
        return (
            a,
            b,
            c,
            J.nn.combine_masks(a, None, J.nn.make_causal_mask(x)),
            J.nn.combine_masks(b, c),
        )

    yield "masks", masks


@family("recurrent")
def recurrent():
    cells = {
        "LSTMCell": [{}, {"bias_init": init("normal", 1.0)}, {"carry_init": init("normal", 1.0)}],
        "OptimizedLSTMCell": [{}, {"bias_init": init("normal", 1.0)}],
        "GRUCell": [{}, {"bias_init": init("normal", 1.0)}],
        "SimpleCell": [{}, {"residual": True}],
        "MGUCell": [{}, {"reset_gate": False}, {"forget_bias_init": init("normal", 1.0)}],
    }
    for cls, configs in cells.items():
        for config in configs:
            label = ",".join(f"{k}={_label(v)}" for k, v in config.items())

            def make(J, cls=cls, config=config):
                given = {k: v(J) if getattr(v, "late", False) else v for k, v in config.items()}
                return getattr(J.nn, cls)(3, param_dtype=J.dtype, **given)

            def step(J, make=make):
                cell = make(J)
                carry = cell.initialize_carry(J.jax.random.key(5), (2, 4))
                return carry, layer(J, cell, carry, array(J, 2, 4), grad=False)

            def sequence(J, make=make):
                return layer(J, J.nn.RNN(make(J)), array(J, 2, 5, 4))

            yield f"{cls}({label})", step
            yield f"RNN({cls}({label}))", sequence

    rnns = [
        {"time_major": True},
        {"reverse": True},
        {"reverse": True, "keep_order": True},
        {"return_carry": True},
        {"unroll": 2},
    ]
    for config in rnns:

        def run(J, config=config):
            cell = J.nn.GRUCell(3, param_dtype=J.dtype)
            return layer(J, J.nn.RNN(cell, **config), array(J, 2, 5, 4))

        yield f"RNN({config})", run
    for config in [{}, {"return_carry": True}, {"reverse": True, "keep_order": True}]:

        def lengths(J, config=config):
            module = J.nn.RNN(J.nn.OptimizedLSTMCell(3, param_dtype=J.dtype), **config)
            lengths = J.jnp.array([2, 5])
            return layer(J, module, array(J, 2, 5, 4), seq_lengths=lengths)

        yield f"RNN(seq_lengths, {config})", lengths

    def carried(J):
        module = J.nn.RNN(J.nn.SimpleCell(3, param_dtype=J.dtype))
        return layer(J, module, array(J, 2, 5, 4), initial_carry=array(J, 2, 3, seed=2))

    yield "RNN(initial_carry)", carried
    for config in [{}, {"return_carry": True}, {"time_major": True}]:

        def both(J, config=config):
            make = lambda: J.nn.RNN(J.nn.GRUCell(3, param_dtype=J.dtype))
            return layer(J, J.nn.Bidirectional(make(), make(), **config), array(J, 2, 5, 4))

        yield f"Bidirectional({config})", both

    def images(J):
        cell = J.nn.ConvLSTMCell(2, (2, 2), param_dtype=J.dtype)
        return layer(J, J.nn.RNN(cell), array(J, 1, 3, 4, 4, 2))

    yield "RNN(ConvLSTMCell)", images

    def stacked(J):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                for size in (3, 4):
                    x = J.nn.RNN(J.nn.LSTMCell(size, param_dtype=J.dtype))(x)
                return J.nn.Dense(2, param_dtype=J.dtype)(x[:, -1])

        return layer(J, Net(), array(J, 2, 5, 4))

    yield "two stacked RNNs", stacked
