"""What those who extend weft, or wrote transformations for JAX, find."""

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import api_util, monitoring
from weft.extend import backend, core, linear_util, source_info_util
from weft.extend import random as extend_random
from weft.extend.core.primitives import call_p, closed_call_p
from weft.interpreters import ad, batching, mlir, partial_eval, xla


@pytest.fixture
def listening():
    yield
    monitoring.clear_event_listeners()


# --- events ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("listening")
def test_tracing_and_compiling_are_events_with_durations():
    durations, spans, scalars = [], [], []
    monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **kwargs: durations.append((event, seconds, kwargs["fun_name"]))
    )
    monitoring.register_event_time_span_listener(
        lambda event, start, end, **kwargs: spans.append((event, end - start))
    )
    monitoring.register_scalar_listener(lambda event, value, **kwargs: scalars.append(event))

    @weft.jit
    def watched(x):
        return jnp.tanh(x) * 3.0

    watched(jnp.ones(3))
    mine = [(event, name) for event, _, name in durations if "watched" in name]
    assert mine == [(monitoring.TRACE, "watched"), (monitoring.COMPILE, "jit(watched)")]
    assert all(seconds > 0 for _, seconds, _ in durations)
    assert [event for event, _ in spans] == scalars == [event for event, _, _ in durations]
    count = len(durations)
    watched(jnp.ones(3))
    assert len(durations) == count
    assert watched.cache_info()["misses"] == 1


@pytest.mark.usefixtures("listening")
def test_events_of_ones_own():
    seen = []
    listener = lambda event, **kwargs: seen.append((event, kwargs))
    monitoring.register_event_listener(listener)
    monitoring.record_event("/mine/saved", step=3)
    assert seen == [("/mine/saved", {"step": 3})]
    monitoring.unregister_event_listener(listener)
    monitoring.record_event("/mine/saved")
    assert len(seen) == 1
    with pytest.raises(ValueError, match="not registered"):
        monitoring.unregister_event_listener(listener)


# --- flat functions -------------------------------------------------------------------------------


def test_functions_over_leaves():
    leaves, tree = weft.tree.flatten(((1.0, [2.0]), {"z": 3.0}))
    wrapped = linear_util.wrap_init(lambda x, y, z: {"sum": x + y[0] + z})
    flat, out_tree = api_util.flatten_fun(wrapped, tree)
    with pytest.raises(linear_util.StoreException, match="has not run"):
        out_tree()
    assert flat.call_wrapped(*leaves) == [6.0]
    assert out_tree() == weft.tree.structure({"sum": 0})
    flat, out_tree = api_util.flatten_fun_nokwargs(
        linear_util.wrap_init(lambda x, y: (y, x)), weft.tree.structure((1, 2))
    )
    assert flat.call_wrapped(1, 2) == [2, 1]


def test_transformations_with_side_results():
    @linear_util.transformation_with_aux
    def counted(scale, *args):
        out = yield args, {}
        yield scale * out, len(args)

    f, count = counted(linear_util.wrap_init(max), 10)
    assert (f.call_wrapped(1, 2, 3), count()) == (30, 3)
    assert linear_util.merge_linear_aux(count, count) == (True, 3)


def test_donated_arguments():
    assert api_util.rebase_donate_argnums((2, 3), (0,)) == (1, 2)
    with pytest.raises(ValueError, match="both static and donated"):
        api_util.rebase_donate_argnums((0,), (0,))
    tree = weft.tree.structure(((1, [2, 3]), {"a": 4}))
    assert api_util.donation_vector((1,), ("a",), tree) == (False, True, True, True)


# --- programs and traces --------------------------------------------------------------------------


def test_the_state_of_tracing():
    outside = core.get_opaque_trace_state()
    seen = []

    def f(x):
        seen.append(core.get_opaque_trace_state() == outside)
        seen.append(core.unsafe_am_i_under_a_jit_DO_NOT_USE())
        seen.append(core.unsafe_get_axis_names_DO_NOT_USE())
        with core.take_current_trace():
            seen.append(core.get_opaque_trace_state() == outside)
        return x

    weft.jit(weft.vmap(f, axis_name="i"))(jnp.ones(2))
    assert seen == [False, True, ["i"], True]
    assert not core.unsafe_am_i_under_a_jit_DO_NOT_USE()


def test_types_of_mapped_values():
    aval = weft.typeof(jnp.ones((3, 4)))
    assert core.mapped_aval(4, 1, aval).shape == (3,)
    assert core.unmapped_aval(4, 1, core.mapped_aval(4, 1, aval)) == aval
    assert core.mapped_aval(4, None, aval) is aval
    with pytest.raises(TypeError, match="does not have size 5"):
        core.mapped_aval(5, 0, aval)


def test_programs_inside_programs():
    closed = weft.make_jaxpr(lambda x: weft.jit(jnp.sin)(x))(1.0)
    assert [len(j.eqns) for j in core.subjaxprs(closed.jaxpr)] == [1]


@pytest.mark.parametrize("primitive", [call_p, closed_call_p])
def test_calls_of_programs(primitive):
    closed = weft.make_jaxpr(lambda x, y: jnp.sin(x) * y)(1.0, 1.0)
    f = lambda x, y: primitive.bind(x, y, call_jaxpr=closed)[0]
    expected = np.cos(0.5) * 2.0
    assert np.allclose(weft.grad(f)(0.5, 2.0), expected)
    assert np.allclose(weft.jit(weft.grad(f))(0.5, 2.0), expected)
    assert np.allclose(weft.vmap(f, (0, None))(jnp.full(2, 0.5), 2.0), np.sin(0.5) * 2.0)


def test_partial_evaluation():
    known = partial_eval.PartialVal.known(2.0)
    unknown = partial_eval.PartialVal.unknown(weft.typeof(1.0))
    f = linear_util.wrap_init(lambda a, x: (jnp.sin(a), jnp.sin(a) * x))
    jaxpr, results, consts = partial_eval.trace_to_jaxpr_nounits(f, [known, unknown])
    assert [r.is_known() for r in results] == [True, False]
    assert [str(eqn.primitive) for eqn in jaxpr.eqns] == ["mul"]
    assert np.allclose(core.eval_jaxpr(jaxpr, consts, 3.0), np.sin(2.0) * 3.0)


def test_rules_of_wefts_own_primitives_can_be_given():
    primitive = core.Primitive("doubled")
    primitive.def_impl(lambda x: 2 * x)
    primitive.def_abstract_eval(lambda x: x)
    batching.axis_primitive_batchers[primitive] = lambda size, name, kind, args, dims: (
        primitive.bind(*args),
        dims[0],
    )
    assert weft.vmap(primitive.bind)(jnp.ones(2)).tolist() == [2.0, 2.0]
    ad.deflinear(primitive, lambda ct: [primitive.bind(ct)])
    assert float(weft.grad(primitive.bind)(1.0)) == 2.0
    assert ad.get_primitive_transpose(primitive) is not None
    assert float(xla.apply_primitive(primitive, 3.0)) == 6.0


def test_reducers_are_batched():
    reduce = core.Primitive("own_sum")
    reduce.def_lowering(lambda x, axes: jnp.sum(x, axes))
    reduce.def_abstract_eval(
        lambda x, axes: core_aval(tuple(n for i, n in enumerate(x.shape) if i not in axes), x)
    )
    batching.defreducer(reduce)
    x = jnp.arange(24.0).reshape(2, 3, 4)
    for axis in range(3):
        expected = np.sum(np.moveaxis(x, axis, 0), 1)
        got = weft.vmap(lambda y: reduce.bind(y, axes=(0,)), in_axes=axis)(x)
        assert np.allclose(got, expected)


def core_aval(shape, like):
    return like.update(shape=shape)


# --- generators, backends, lines ------------------------------------------------------------------


def count_up(shape):
    return jnp.arange(np.prod(shape), dtype=jnp.uint32).reshape(shape)


def own_generator():
    def random_bits(key, width, shape):
        return (key[1] * jnp.uint32(2654435761) + count_up(shape)).astype(f"uint{width}")

    return extend_random.define_prng_impl(
        key_shape=(2,),
        seed=lambda n: jnp.stack([jnp.uint32(7), jnp.asarray(n).astype(jnp.uint32)]),
        split=lambda key, shape: jnp.broadcast_to(key, (*shape, 2)) + count_up((*shape, 1)),
        random_bits=random_bits,
        fold_in=lambda key, data: key.at[0].add(data.astype(jnp.uint32)),
        name="own",
        tag="own",
    )


def test_a_generator_of_ones_own():
    impl = own_generator()
    key = weft.random.key(5, impl=impl)
    assert str(key.dtype) == "key<own>"
    assert weft.random.key_data(key).tolist() == [7, 5]
    keys = weft.random.split(key, 3)
    assert weft.random.key_data(keys).tolist() == [[7, 5], [8, 6], [9, 7]]
    assert weft.random.key_data(weft.random.fold_in(key, 3)).tolist() == [10, 5]
    draw = lambda k: weft.random.uniform(k, (4,))
    assert np.array_equal(weft.jit(draw)(key), draw(key))
    assert np.array_equal(weft.vmap(draw)(keys)[1], draw(keys[1]))
    assert 0 <= float(draw(key).min()) and float(draw(key).max()) < 1
    assert weft.random.normal(key, (3,)).shape == (3,)


def test_threefry_as_a_function():
    key = weft.random.key_data(weft.random.key(1))
    bits = extend_random.threefry_2x32((key[0], key[1]), jnp.arange(5, dtype=jnp.uint32))
    # as JAX 0.10.2 has it
    assert bits.tolist() == [3568232559, 713140391, 1958986954, 2761185182, 2442350529]
    assert extend_random.seed_with_impl(extend_random.rbg_prng_impl, 1).dtype.name == "key<rbg>"
    with pytest.raises(TypeError, match="uint32"):
        extend_random.threefry_2x32((key[0], key[1]), jnp.arange(5))


def test_backends():
    assert backend.get_backend().platform == "cpu"
    assert backend.get_backend("cpu") is backend.backends()["cpu"]
    assert backend.get_backend().device_count() == weft.device_count()
    assert backend.get_default_device() in weft.devices()
    with pytest.raises(RuntimeError, match="backend"):
        backend.get_backend("abacus")

    class Cache:
        cleared = 0

        def cache_clear(self):
            self.cleared += 1

    cache = Cache()
    backend.register_backend_cache(cache, "tests")
    backend.clear_in_memory_compilation_cache()
    assert cache.cleared == 1


def test_lines_and_names():
    assert "test_extensions.py" in source_info_util.summarize(source_info_util.current())
    with source_info_util.extend_name_stack("layer"):
        assert source_info_util.current_name_stack() == ("layer",)
        with source_info_util.reset_name_stack():
            assert source_info_util.current_name_stack() == ()


def test_lowerings_are_part_of_compiled_programs():
    staged = []

    def lowering(x, y, *, power):
        staged.append(x)
        return x**power + y

    primitive = core.Primitive("blend")
    primitive.def_impl(lambda x, y, *, power: x**power + y)
    primitive.def_abstract_eval(lambda x, y, *, power: x)
    mlir.register_lowering(primitive, mlir.lower_fun(lowering, multiple_results=False))
    f = weft.jit(lambda x: jnp.sin(primitive.bind(x, 2 * x, power=3)))
    x = jnp.linspace(0.0, 1.0, 5)
    assert np.allclose(f(x), np.sin(np.asarray(x) ** 3 + 2 * np.asarray(x)))
    count = len(staged)
    assert count == 1
    f(x)
    weft.jit(lambda x: primitive.bind(x, x, power=3))(x)
    assert len(staged) == count
    assert "blend" not in f.lower(x).compile().as_text()


def test_lowerings_without_a_hash_and_rules_that_write_mlir():
    primitive = core.Primitive("listed")
    primitive.def_impl(lambda x, *, terms: x + sum(terms))
    primitive.def_abstract_eval(lambda x, *, terms: x)
    mlir.register_lowering(primitive, lambda context, x, *, terms: [x])
    assert float(weft.jit(lambda x: primitive.bind(x, terms=[1, 2]))(1.0)) == 4.0
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x, terms: x * sum(terms), False))
    assert float(weft.jit(lambda x: primitive.bind(x, terms=[1, 2]))(2.0)) == 6.0


class Named:
    """An array with names for its axes: no tree, no array."""

    def __init__(self, names, data):
        self.names, self.data = names, data


class Axis:
    """Says which named axis is mapped."""

    def __init__(self, name):
        self.name = name


@pytest.fixture
def named_axes():
    def element(cont, index, value, spec):
        at = value.names.index(spec.name)
        return Named(tuple(n for n in value.names if n != spec.name), cont(value.data, at))

    def value(cont, size, element, spec):
        return Named((spec.name, *element.names), cont(size, element.data, 0))

    batching.register_vmappable(Named, Axis, int, element, value, None)
    yield
    batching.unregister_vmappable(Named)


@pytest.mark.usefixtures("named_axes")
def test_vmap_maps_types_that_libraries_register():
    x = Named(("i", "j"), jnp.arange(6.0).reshape(2, 3))

    def f(a, y):
        assert (a.names, a.data.shape) == (("i",), (2,))
        return Named(a.names, a.data * y), y + 1

    out, y = weft.vmap(f, in_axes=(Axis("j"), 0), out_axes=(Axis("j"), 0))(x, jnp.arange(3.0))
    assert out.names == ("j", "i")
    assert np.array_equal(out.data, np.arange(6.0).reshape(2, 3).T * np.arange(3.0)[:, None])
    assert y.tolist() == [1.0, 2.0, 3.0]
    whole = weft.jit(
        lambda d: (
            weft.vmap(lambda a: Named(a.names, a.data + 1), Axis("i"), Axis("i"), axis_size=2)(
                Named(x.names, d)
            ).data
        )
    )(x.data)
    assert np.array_equal(whole, x.data + 1)
    with pytest.raises(ValueError, match="Named is already registered"):
        batching.register_vmappable(Named, Axis, int, None, None, None)
    with pytest.raises(ValueError, match="is not registered"):
        batching.unregister_vmappable(Axis)
