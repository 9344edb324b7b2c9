"""Cases about modules: names, collections, streams, lifted transformations, tools, wrong uses."""

import numpy as np

from tests.linen.cases import FAMILIES, family
from tests.linen.harness import array, integers, keys, layer, total


def models(J):
    """Small models of many forms, as their user would write them."""
    nn = J.nn

    class Compact(nn.Module):
        @nn.compact
        def __call__(self, x):
            for width in (3, 4, 3):
                x = nn.tanh(nn.Dense(width, param_dtype=J.dtype)(x))
            return nn.LayerNorm(param_dtype=J.dtype)(x)

    class Setup(nn.Module):
        def setup(self):
            self.layers = [nn.Dense(w, param_dtype=J.dtype) for w in (3, 4)]
            self.named = {
                "a": nn.Dense(3, param_dtype=J.dtype),
                "b": nn.Dense(3, param_dtype=J.dtype),
            }
            self.scale = self.param("scale", nn.initializers.normal(1.0), (3,), J.dtype)

        def __call__(self, x):
            for one in self.layers:
                x = one(x)
            return (self.named["a"](x) + self.named["b"](x)) * self.scale

        def encode(self, x):
            return self.layers[0](x)

    class Shared(nn.Module):
        @nn.compact
        def __call__(self, x):
            dense = nn.Dense(x.shape[-1], param_dtype=J.dtype)
            return dense(nn.tanh(dense(x)))

    class Twice(nn.Module):
        first: nn.Module
        second: nn.Module

        @nn.compact
        def __call__(self, x):
            return self.second(nn.tanh(self.first(x)))

    class Counter(nn.Module):
        @nn.compact
        def __call__(self, x):
            known = self.has_variable("state", "n")
            count = self.variable("state", "n", lambda: J.jnp.zeros((), J.jnp.int32))
            if known:
                count.value = count.value + 1
            self.sow("seen", "x", x)
            self.sow("seen", "x", 2 * x)
            y = self.perturb("y", nn.Dense(2, param_dtype=J.dtype)(x))
            return y + count.value

    class Noise(nn.Module):
        @nn.compact
        def __call__(self, x):
            a = J.jax.random.normal(self.make_rng("a"), (2,), J.dtype)
            b = J.jax.random.normal(self.make_rng("a"), (2,), J.dtype)
            c = J.jax.random.normal(self.make_rng("b"), (2,), J.dtype)
            d = J.jax.random.normal(self.make_rng("missing"), (2,), J.dtype)
            return Inner()(x) + a, b, c, d

    class Inner(nn.Module):
        @nn.compact
        def __call__(self, x):
            return x + J.jax.random.normal(self.make_rng("a"), (2,), J.dtype)

    class Scoped(nn.Module):
        @nn.compact
        def __call__(self, x):
            return nn.Dense(2, param_dtype=J.dtype)(x) + self.up(x) + self.up(2 * x)

        @nn.compact_name_scope
        def up(self, x):
            return nn.Dense(2, param_dtype=J.dtype)(x)

    class Outer(nn.Module):
        def setup(self):
            self.inner = nn.Dense(2, param_dtype=J.dtype)
            nn.share_scope(self, self.inner)

        def __call__(self, x):
            return self.inner(x)

    class Deep(nn.Module):
        depth: int

        @nn.compact
        def __call__(self, x):
            if self.depth:
                x = Deep(self.depth - 1)(x)
            return nn.Dense(3, param_dtype=J.dtype, bias_init=nn.initializers.normal(1.0))(x)

    return {name: value for name, value in locals().items() if isinstance(value, type)}


@family("modules")
def modules():
    for name in ["Compact", "Setup", "Shared", "Scoped", "Outer"]:

        def run(J, name=name):
            return layer(J, models(J)[name](), array(J, 2, 3))

        yield name, run

    def deep(J):
        return layer(J, models(J)["Deep"](4), array(J, 2, 3))

    yield "Deep", deep

    def twice(J, same):
        dense = lambda: J.nn.Dense(3, param_dtype=J.dtype)
        one = dense()
        given = (one, one) if same else (J.nn.Sequential([dense(), J.nn.tanh, dense()]), dense())
        return layer(J, models(J)["Twice"](*given), array(J, 2, 3))

    yield "shared fields", lambda J: twice(J, True)
    yield "nested fields", lambda J: twice(J, False)

    def method(J):
        model = models(J)["Setup"]()
        variables = model.init(J.jax.random.key(0), array(J, 2, 3))
        x = array(J, 2, 3)
        by_function = model.apply(variables, x, method=lambda m, x: m.encode(x) + m.scale)
        return model.apply(variables, x, method="encode"), by_function

    yield "methods", method

    def initialised_method(J):
        return models(J)["Setup"]().init(J.jax.random.key(0), array(J, 2, 3), method="encode")

    yield "init of a method", initialised_method

    def counter(J):
        model = models(J)["Counter"]()
        variables = model.init(J.jax.random.key(0), array(J, 2, 3))
        results = [variables]
        for mutable in [["state"], ["state", "seen"], True, J.nn.DenyList("params")]:
            out = model.apply(variables, array(J, 2, 3), mutable=mutable)
            results.append(out)
        return results

    yield "collections", counter

    def perturbed(J):
        model = models(J)["Counter"]()
        variables = model.init(J.jax.random.key(0), array(J, 2, 3))

        def loss(perturbations):
            held = {**variables, "perturbations": perturbations}
            return total(J, model.apply(held, array(J, 2, 3), mutable=["state"])[0])

        return J.jax.grad(loss)(variables["perturbations"])

    yield "perturb", perturbed

    def noise(J):
        model = models(J)["Noise"]()
        rngs = keys(J, "params", "a", "b")
        return model.init_with_output(rngs, array(J, 2)), model.apply({}, array(J, 2), rngs=rngs)

    yield "streams", noise

    def old_key(J):
        model = models(J)["Compact"]()
        return model.init(J.jax.random.PRNGKey(3), array(J, 2, 3))

    yield "a key of raw bits", old_key

    def captured(J):
        model = models(J)["Compact"]()
        variables = model.init(J.jax.random.key(0), array(J, 2, 3))
        some = lambda module, name: isinstance(module, J.nn.Dense) and name == "__call__"
        kwargs = {"mutable": ["intermediates"]}
        everything = model.apply(variables, array(J, 2, 3), capture_intermediates=True, **kwargs)
        return everything, model.apply(
            variables, array(J, 2, 3), capture_intermediates=some, **kwargs
        )

    yield "capture_intermediates", captured

    def bound(J):
        model = models(J)["Setup"]()
        variables = model.init(J.jax.random.key(0), array(J, 2, 3))
        held = model.bind(variables)
        unbound, again = held.unbind()
        copied = held.layers[1].copy(name="other", parent=None)
        return (
            held(array(J, 2, 3)),
            held.layers[1].variables,
            held.encode(array(J, 2, 3)),
            unbound.apply(again, array(J, 2, 3)),
            np.array(copied.features),
        )

    yield "bind and unbind", bound

    def intercepted(J):
        model = models(J)["Compact"]()
        names = []

        def watch(next_fun, args, kwargs, context):
            names.append((type(context.module).__name__, context.method_name))
            return next_fun(*args, **kwargs) * 2

        variables = model.init(J.jax.random.key(0), array(J, 2, 3))
        with J.nn.intercept_methods(watch):
            out = model.apply(variables, array(J, 2, 3))
        return out, np.array([len(names), names.count(("Dense", "__call__"))])

    yield "intercept_methods", intercepted

    def boxed(J):
        start = J.nn.with_partitioning(J.nn.initializers.lecun_normal(), ("in", "out"))
        logical = J.nn.with_logical_partitioning(J.nn.initializers.lecun_normal(), ("in", "out"))
        found = []
        for init in (start, logical):
            module = J.nn.Dense(3, kernel_init=init, param_dtype=J.dtype)
            variables = module.init(J.jax.random.key(0), array(J, 2, 3))
            specs = J.nn.get_partition_spec(variables)
            assert specs["params"]["kernel"] == J.jax.P("in", "out")
            assert specs["params"]["bias"] == J.jax.P()
            found.append((J.nn.unbox(variables), module.apply(variables, array(J, 2, 3))))
            Many = J.nn.vmap(
                J.nn.Dense,
                variable_axes={"params": 0},
                split_rngs={"params": True},
                metadata_params={J.nn.PARTITION_NAME: "many"},
            )
            many = Many(3, kernel_init=init, param_dtype=J.dtype)
            variables = many.init(J.jax.random.key(0), array(J, 4, 2, 3))
            specs = J.nn.get_partition_spec(variables)
            assert specs["params"]["kernel"] == J.jax.P("many", "in", "out")
            found.append((J.nn.unbox(variables), many.apply(variables, array(J, 4, 2, 3))))
        rules = [("in", "x"), ("out", None), ("many", "x")]
        with J.nn.logical_axis_rules(rules):
            axes = J.nn.logical_to_mesh(specs)
        assert axes["params"]["kernel"] == J.jax.P(None, "x", None), axes
        return found

    yield "boxes", boxed

    def lazy(J):
        shape = J.jax.ShapeDtypeStruct((2, 3), J.dtype)
        return models(J)["Compact"]().lazy_init(J.jax.random.key(0), shape)

    yield "lazy_init", lazy

    def many_streams(J):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                x = J.nn.Dropout(0.5, deterministic=False)(x)
                x = J.nn.Dense(4, param_dtype=J.dtype)(x)
                x = J.nn.BatchNorm(use_running_average=False, param_dtype=J.dtype)(x)
                return J.nn.Dropout(0.5, deterministic=False)(x)

        return layer(
            J, Net(), array(J, 4, 3), streams=("params", "dropout"), mutable=["batch_stats"]
        )

    yield "dropout and batch norm", many_streams


@family("lifted")
def lifted():
    def case(make, *shape, streams=("params",), **kwargs):
        def run(J):
            return layer(J, make(J), array(J, *shape), streams=streams, **kwargs)

        return run

    dense = lambda J: {"features": 3, "param_dtype": J.dtype}
    yield "jit", case(lambda J: J.nn.jit(J.nn.Dense)(**dense(J)), 2, 3)
    yield "jit of a model", case(lambda J: J.nn.jit(models(J)["Compact"])(), 2, 3)
    yield (
        "jit with streams",
        case(
            lambda J: J.nn.jit(J.nn.Dropout)(0.5, deterministic=False),
            3,
            4,
            streams=("params", "dropout"),
        ),
    )
    yield "remat", case(lambda J: J.nn.remat(J.nn.Dense)(**dense(J)), 2, 3)
    yield "checkpoint of a model", case(lambda J: J.nn.checkpoint(models(J)["Setup"])(), 2, 3)
    yield (
        "remat_scan",
        case(lambda J: J.nn.remat_scan(J.nn.Dense, lengths=(2, 2))(**dense(J)), 2, 3),
    )
    for axis in (0, 1, -1):
        yield (
            f"vmap over parameters along {axis}",
            case(
                lambda J, axis=axis: J.nn.vmap(
                    J.nn.Dense, variable_axes={"params": axis}, split_rngs={"params": True}
                )(**dense(J), bias_init=J.nn.initializers.normal(1.0), use_bias=axis == 0),
                4,
                2,
                3,
            ),
        )
    yield (
        "vmap with shared parameters",
        case(
            lambda J: J.nn.vmap(
                J.nn.Dense,
                variable_axes={"params": None},
                split_rngs={"params": False},
                in_axes=1,
                out_axes=1,
            )(**dense(J)),
            2,
            4,
            3,
        ),
    )
    yield (
        "vmap of batch norm",
        case(
            lambda J: J.nn.vmap(
                J.nn.BatchNorm,
                variable_axes={"params": None, "batch_stats": 0},
                split_rngs={"params": False},
            )(use_running_average=False, param_dtype=J.dtype),
            3,
            4,
            2,
            mutable=["batch_stats"],
        ),
    )

    def steps(J):
        class Step(J.nn.Module):
            @J.nn.compact
            def __call__(self, carry, x):
                carry = J.nn.tanh(J.nn.Dense(3, param_dtype=J.dtype)(carry) + x)
                return carry, J.jnp.sum(carry)

        return Step

    def scanned(J, shared, **kwargs):
        axes = {"variable_broadcast": "params", "split_rngs": {"params": False}}
        if not shared:
            axes = {"variable_axes": {"params": 0}, "split_rngs": {"params": True}}
        return J.nn.scan(steps(J), **axes, **kwargs)()

    def over_time(J, shared, shape=(4, 2, 3), **kwargs):
        module = scanned(J, shared, **kwargs)
        return layer(J, module, array(J, 2, 3), array(J, *shape, seed=1))

    yield "scan with shared parameters", lambda J: over_time(J, True)
    yield "scan in depth", lambda J: over_time(J, False)
    yield "scan in reverse", lambda J: over_time(J, True, reverse=True)
    yield "scan over axis 1", lambda J: over_time(J, True, (2, 4, 3), in_axes=1, out_axes=0)
    yield "scan unrolled", lambda J: over_time(J, False, unroll=2)

    def carried(J):
        class Step(J.nn.Module):
            @J.nn.compact
            def __call__(self, carry, x):
                count = self.variable("state", "n", lambda: J.jnp.zeros((), J.dtype))
                count.value = count.value + 1
                noise = J.jax.random.normal(self.make_rng("noise"), (), J.dtype)
                return carry + x, count.value + noise

        streams = {"params": False, "noise": True}
        module = J.nn.scan(Step, variable_carry="state", split_rngs=streams)()
        rngs = keys(J, "params", "noise")
        variables = {"state": {"n": J.jnp.zeros((), J.dtype)}}
        return module.apply(variables, array(J, 2), array(J, 3, 2), rngs=rngs, mutable=["state"])

    yield "scan with carried variables and streams", carried

    def branch(J, which):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x, pred):
                double = lambda mdl, x: 2 * J.nn.Dense(3, name="a", param_dtype=J.dtype)(x)
                negate = lambda mdl, x: -J.nn.Dense(3, name="a", param_dtype=J.dtype)(x)
                if which == "cond":
                    return J.nn.cond(pred > 0, double, negate, self, x)
                return J.nn.switch(pred, [double, negate, double], self, x)

        return [layer(J, Net(), array(J, 2, 3), J.jnp.asarray(i, J.jnp.int32)) for i in (0, 1)]

    yield "cond", lambda J: branch(J, "cond")
    yield "switch", lambda J: branch(J, "switch")

    def loop(J):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                dense = J.nn.Dense(3, param_dtype=J.dtype)
                if self.is_mutable_collection("params"):
                    dense(x)
                self.variable("state", "n", lambda: J.jnp.zeros((), J.jnp.int32))
                if self.is_initializing():
                    return x

                def condition(mdl, carry):
                    return mdl.get_variable("state", "n") < 3

                def body(mdl, carry):
                    mdl.put_variable("state", "n", mdl.get_variable("state", "n") + 1)
                    return J.nn.tanh(carry)

                return J.nn.while_loop(
                    condition, body, self, x, carry_variables="state", split_rngs={"params": False}
                )

        variables = Net().init(J.jax.random.key(0), array(J, 2, 3))
        return variables, Net().apply(variables, array(J, 2, 3), mutable=["state"])

    yield "while_loop", loop

    def gradients(J):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                function = lambda mdl, x: J.jnp.sum(J.nn.tanh(mdl(x)))
                make = lambda: J.nn.Dense(2, param_dtype=J.dtype)
                y, back = J.nn.vjp(function, make(), x)
                both = J.nn.value_and_grad(function, make(), x)
                one = J.nn.grad(function, make(), x)
                inner = make()
                inner(x)
                tangents = {"params": J.jax.tree.map(J.jnp.ones_like, inner.variables["params"])}
                moved = J.nn.jvp(function, inner, (x,), (x,), tangents)
                return y, back(J.jnp.ones_like(y)), both, one, moved

        return Net().init_with_output(J.jax.random.key(0), array(J, 2, 3))

    yield "vjp, value_and_grad, grad, jvp", gradients

    def custom(J):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                plain = lambda mdl, x: mdl(x)
                forward = lambda mdl, x: J.nn.vjp(plain, mdl, x)

                def backward(back, cotangent):
                    variables, inputs = back(cotangent)
                    return J.jax.tree.map(J.jnp.sign, variables), inputs

                run = J.nn.custom_vjp(plain, forward_fn=forward, backward_fn=backward)
                return run(J.nn.Dense(2, param_dtype=J.dtype), x)

        return layer(J, Net(), array(J, 2, 3))

    yield "custom_vjp", custom

    def mapped(J):
        def tied(tree):
            tree = J.core.unfreeze(tree)
            if "params" in tree and "kernel" in tree["params"]:
                tree["params"]["kernel"] = tree["params"]["kernel"].T
            return tree

        Net = J.nn.map_variables(J.nn.Dense, "params", tied, tied, init=True)
        return layer(J, Net(3, param_dtype=J.dtype), array(J, 2, 3))

    yield "map_variables", mapped

    def folded(J):
        return layer(J, J.nn.fold_rngs(models(J)["Compact"])(), array(J, 2, 3))

    yield "fold_rngs", folded

    def methods(J):
        class Net(J.nn.Module):
            def setup(self):
                self.dense = J.nn.Dense(3, param_dtype=J.dtype)

            @J.nn.jit
            def __call__(self, x):
                return self.helper(x) + self.dense(x)

            @J.nn.remat
            def helper(self, x):
                return J.nn.tanh(self.dense(x))

        return layer(J, Net(), array(J, 2, 3))

    yield "decorated methods", methods

    def in_depth(J):
        class Block(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                h = J.nn.LayerNorm(param_dtype=J.dtype)(x)
                h = J.nn.Dropout(0.2, deterministic=False)(h)
                return x + J.nn.Dense(3, param_dtype=J.dtype)(h), None

        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                Stack = J.nn.scan(
                    J.nn.remat(Block),
                    variable_axes={"params": 0},
                    split_rngs={"params": True, "dropout": True},
                    length=3,
                    metadata_params={J.nn.PARTITION_NAME: None},
                )
                return Stack(name="stack")(x)[0]

        return layer(J, Net(), array(J, 2, 3), streams=("params", "dropout"))

    yield "scan of remat with dropout", in_depth


@family("tools")
def tools():
    def stored(J):
        tree = {
            "a": array(J, 2, 3),
            "b": [integers(J, 4, high=9), (array(J, 1), None)],
            "c": J.core.freeze({"d": array(J, 2).astype(J.jnp.bfloat16)}),
        }
        state = J.serialization.to_state_dict(tree)
        return state["a"], state["b"]["0"], state["b"]["1"]["0"], state["c"]["d"]

    yield "state dictionaries", stored

    def scaling(J):
        scale = J.dynamic_scale.DynamicScale(growth_interval=1, scale=8.0)
        results = []
        for value in (1.0, 2.0, np.inf, 3.0):
            x = J.jnp.asarray(value, J.dtype)
            result = scale.value_and_grad(lambda x: J.jnp.sum(x**2))(x)
            scale = result.dynamic_scale
            results.append((scale.scale, scale.fin_steps, result.finite, result.aux, result.grad))
        return results

    yield "DynamicScale", scaling

    def schedules(J):
        make = J.lr_schedule
        rates = [
            make.create_constant_learning_rate_schedule(0.1, 10, 2),
            make.create_stepped_learning_rate_schedule(0.1, 10, [(2, 0.5), (4, 0.1)], 1),
            make.create_cosine_learning_rate_schedule(0.1, 10, 5, 1),
        ]
        steps = J.jnp.arange(0, 60, 7).astype(J.jnp.float32)
        return [J.jnp.stack([rate(step) for step in steps]).astype(J.jnp.float32) for rate in rates]

    yield "schedules", schedules

    def labels(J):
        x = integers(J, 2, 3, high=4)
        return J.common_utils.onehot(x, 4, 0.9, 0.1), J.common_utils.stack_forest(
            [{"a": array(J, 2)}, {"a": array(J, 2, seed=1)}]
        )

    yield "common_utils", labels

    def scan_in_dim(J):
        body = lambda carry, x: (carry + J.jnp.sum(x), x * carry)
        x = array(J, 2, 3, 4)
        start = J.jnp.zeros((), J.dtype)
        return (
            J.jax_utils.scan_in_dim(body, start, x, axis=1),
            J.jax_utils.scan_in_dim(body, start, x, axis=(0, 2), unroll=(1, 2)),
            J.jax_utils.scan_in_dim(body, start, x, axis=(1,), keepdims=True),
        )

    yield "scan_in_dim", scan_in_dim

    def state(J):
        class Momentum:
            def init(self, params):
                return J.jax.tree.map(J.jnp.zeros_like, params)

            def update(self, grads, state, params):
                state = J.jax.tree.map(lambda s, g: 0.9 * s + g, state, grads)
                return J.jax.tree.map(lambda s: -0.1 * s, state), state

        model = models(J)["Compact"]()
        params = model.init(J.jax.random.key(0), array(J, 2, 3))["params"]
        held = J.train_state.TrainState.create(apply_fn=model.apply, params=params, tx=Momentum())
        for seed in range(3):
            x = array(J, 2, 3, seed=seed)
            loss = lambda p, x=x: total(J, model.apply({"params": p}, x))
            held = held.apply_gradients(grads=J.jax.grad(loss)(held.params))
        return held.params, held.opt_state, held.step

    yield "TrainState", state


@family("wrong")
def wrong():
    def net(J):
        return models(J)["Compact"]()

    def given(J):
        return net(J).init(J.jax.random.key(0), array(J, 2, 3))

    def changed(J, path, value):
        variables = given(J)
        variables["params"]["Dense_0"][path] = value
        return net(J).apply(variables, array(J, 2, 3))

    yield "shape", lambda J: changed(J, "kernel", J.jnp.ones((3, 7)))
    yield "missing", lambda J: net(J).apply({"params": {"Dense_0": {}}}, array(J, 2, 3))
    yield "empty", lambda J: net(J).apply({}, array(J, 2, 3))
    yield "twice", lambda J: net(J).apply({"params": given(J)}, array(J, 2, 3))
    yield "no dictionary", lambda J: net(J).apply({"params": 3}, array(J, 2, 3))
    yield "unbound", lambda J: net(J)(array(J, 2, 3))
    yield "class", lambda J: J.nn.Dense.apply({}, array(J, 2, 3))
    yield "no stream", lambda J: J.nn.Dropout(0.5, deterministic=False).apply({}, array(J, 2))
    yield "no key", lambda J: net(J).init(3, array(J, 2, 3))
    yield "no method", lambda J: net(J).apply(given(J), method=lambda: 1)
    yield "no such method", lambda J: net(J).apply(given(J), method="missing")
    yield "unbind", lambda J: net(J).unbind()
    yield "setup", lambda J: J.nn.Embed(3, 2).setup()
    yield "filter", lambda J: net(J).apply(given(J), array(J, 2, 3), mutable=3)
    yield "share_scope", lambda J: J.nn.share_scope(net(J), net(J))
    yield "transform target", lambda J: J.nn.remat(net(J))
    yield "frozen", lambda J: J.core.freeze({"a": 1}).__setitem__("a", 2)
    yield "variables unbound", lambda J: net(J).variables
    yield "make_rng unbound", lambda J: net(J).make_rng("a")

    def immutable(J):
        module = J.nn.BatchNorm(use_running_average=False)
        return module.apply(module.init(J.jax.random.key(0), array(J, 2, 3)), array(J, 2, 3))

    yield "immutable", immutable

    def body(function, **members):
        def run(J):
            members_here = {"__call__": function(J), "__module__": __name__, **members}
            cls = type("Wrong", (J.nn.Module,), members_here)
            return cls().init(J.jax.random.key(0), array(J, 2, 3))

        return run

    def clash(J):
        def call(self, x):
            J.nn.Dense(2, name="a")(x)
            return J.nn.Dense(2, name="a")(x)

        return J.nn.compact(call)

    yield "name clash", body(clash)

    def outside(J):
        return lambda self, x: J.nn.Dense(2)(x)

    yield "module outside of setup", body(outside)

    def param_outside(J):
        return lambda self, x: self.param("w", J.nn.initializers.ones, (2,))

    yield "param outside of setup", body(param_outside)

    def variable_outside(J):
        return lambda self, x: self.variable("s", "w", lambda: 1)

    yield "variable outside of setup", body(variable_outside)

    def assigns(J):
        def call(self, x):
            self.other = 3
            return x

        return J.nn.compact(call)

    yield "attribute outside of setup", body(assigns)

    def no_collection(J):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                return self.variable("state", "n", lambda: 0).value

        return Net().apply({}, array(J, 2))

    yield "missing collection", no_collection

    def no_variable(J):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                return self.variable("state", "n", lambda: 0).value

        return Net().apply({"state": {"m": 0}}, array(J, 2))

    yield "missing variable", no_variable
    yield "merge_param", lambda J: J.nn.merge_param("a", None, None)
    yield "merge_param twice", lambda J: J.nn.merge_param("a", 1, 2)

    def box(J):
        start = J.nn.with_partitioning(J.nn.initializers.ones, ("in", "out"))
        Many = J.nn.vmap(J.nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True})
        return Many(2, kernel_init=start).init(J.jax.random.key(0), array(J, 2, 3))

    yield "axis without a name", box

    def reserved(J):
        return type("Wrong", (J.nn.Module,), {"__annotations__": {"parent": int}})

    yield "reserved field", reserved

    def lazy(J):
        class Net(J.nn.Module):
            @J.nn.compact
            def __call__(self, x):
                return self.param("w", lambda key: x)

        return Net().lazy_init(J.jax.random.key(0), J.jax.ShapeDtypeStruct((2,), J.dtype))

    yield "lazy_init", lazy
    yield "state", lambda J: J.serialization.from_state_dict({"a": {"b": 1}}, {"a": {}})
    yield "list", lambda J: J.serialization.from_state_dict([1, 2], {"0": 1})
    yield "handler", lambda J: J.serialization.register_serialization_state(dict, id, id)
    yield "embed of floats", lambda J: J.nn.Embed(3, 2).init(J.jax.random.key(0), array(J, 2))
    yield "groups", lambda J: J.nn.GroupNorm(5).init(J.jax.random.key(0), array(J, 2, 3))
    yield "empty Sequential", lambda J: J.nn.Sequential([]).init(J.jax.random.key(0), array(J, 2))
    yield "no list", lambda J: J.nn.Sequential(J.nn.Dense(2))
    yield "einsum", lambda J: J.nn.Einsum((3, 2), "ab,bc").init(J.jax.random.key(0), array(J, 2, 3))
    yield "rules", lambda J: J.nn.logical_to_mesh_axes(("a", "a"), [("a", "x")])


assert "wrong" in FAMILIES
