"""Corners of modules, layers and tables; the expected answers are those of flax 0.12.8."""

import dataclasses
import functools

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft.linen import errors, fp8_ops

KEY, X = weft.random.key(0), jnp.ones((2, 3))


@pytest.mark.parametrize(
    "shape, equation, inputs, bias, out",
    [
        ((5, 6, 4, 7), "ab...d,ej...f->ad...f", (3, 4, 4, 5), (4, 7), (3, 5, 4, 7)),
        ((2, 3, 6), "ab...c,d...e->ab...de", (4, 5, 3, 2), (3, 2, 6), (4, 5, 3, 2, 6)),
        ((4, 5), "...x,xy->...y", (2, 3, 4), (5,), (2, 3, 5)),
        ((1, 4, 5), "...x,...xy->...y", (2, 3, 4), (1, 5), (2, 3, 5)),
        ((3, 4, 5), "...x,...xy->...y", (4,), (3, 5), (3, 5)),
        ((3, 4), "x...,...y->y...", (2, 3), (4, 3), (4, 3)),
        ((7, 3, 4, 5), "...x,...xy->y...", (4,), (5, 7, 3), (5, 7, 3)),
        ((2, 2), "ab,ab->", (2, 2), (), ()),
    ],
)
def test_the_bias_of_einsum_has_the_axes_of_the_kernel(shape, equation, inputs, bias, out):
    layer = nn.Einsum(shape, equation, bias_init=nn.initializers.ones)
    y, variables = layer.init_with_output(KEY, jnp.ones(inputs))
    assert variables["params"]["bias"].shape == bias and y.shape == out
    plain = jnp.einsum(equation, jnp.ones(inputs), variables["params"]["kernel"])
    np.testing.assert_allclose(y, plain + 1, rtol=1e-5)


class Sized(nn.Module):
    width: int = 3

    @property
    def twice(self):
        return 2 * self.width

    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.twice)(x)


def test_properties_of_modules_can_be_pickled_by_value():
    own = vars(Sized)["twice"]
    made, parts = own.__reduce__()  # what cloudpickle asks for
    assert made(*parts).fget is own.fget and type(made(*parts)) is type(own)


class Reading:
    """A descriptor; with ``data`` one that can be assigned to."""

    def __init__(self, good):
        self.good = good

    def __get__(self, obj, cls=None):
        return 10 if self.good else obj.not_there


class ReadingAndWriting(Reading):
    def __set__(self, obj, value):
        raise ValueError("read only")


@pytest.mark.parametrize("kind", [Reading, ReadingAndWriting])
def test_errors_inside_of_descriptors_are_not_taken_for_missing_attributes(kind):
    class Owner(nn.Module):
        good = kind(True)
        bad = kind(False)

        @functools.cached_property
        def kept(self):
            return self.not_there

        def __call__(self, name):
            return getattr(self, name)

    assert Owner().apply({}, "good") == 10
    for name in ("bad", "kept"):
        with pytest.raises(errors.DescriptorAttributeError):
            Owner().apply({}, name)


def test_cached_properties_are_computed_once():
    calls = []

    class Owner(nn.Module):
        @functools.cached_property
        def kept(self):
            calls.append(1)
            return 3

        def __call__(self, x):
            return self.kept + self.kept

    assert Owner().apply({}, 1) == 6 and len(calls) == 1


def test_own_fields_come_last():
    class Base(nn.Module):
        a: int
        _: dataclasses.KW_ONLY
        b: int = 2

    class Derived(Base):
        c: int = 3
        a: float = 1.0

    assert [f.name for f in dataclasses.fields(Derived)] == ["a", "b", "c", "parent", "name"]
    assert (Derived().a, Derived(5, 7).c, Derived(b=4).b) == (1.0, 7, 4)


def test_a_method_with_a_name_scope_can_be_applied_by_name():
    class Net(nn.Module):
        @nn.compact_name_scope
        def up(self, x):
            return nn.Dense(3)(x)

        def __call__(self, x):
            return self.up(x)

    variables = Net().init(KEY, X)
    assert list(variables["params"]) == ["up"]
    assert Net().apply(variables, X, method="up").shape == (2, 3)


def test_tables_are_laid_out_as_those_of_flax():
    class Net(nn.Module):
        @nn.compact
        def __call__(self, x, flag, *, mask):
            init = nn.with_partitioning(nn.initializers.ones, ("in", "out"))
            return nn.Dense(4, kernel_init=init)(x), (x, 1.5, {"deep": None})

    lines = Net().tabulate(KEY, X, True, mask=X).splitlines()
    assert lines[0].strip() == "Net Summary" and set(lines[1]) <= set("┏┳┓━")
    assert [cell.strip() for cell in lines[2].split("┃")[1:-1]] == [
        "path", "module", "inputs", "outputs", "params"
    ]  # fmt: skip
    cells = [[c.rstrip() for c in line.split("│")[3:5]] for line in lines[4:8]]
    assert cells == [
        [" - float32[2,3]", " - float32[2,4]"],
        [" - True", " - - float32[2,3]"],
        [" - mask: float32[2,3]", "   - 1.5"],
        ["", "   - deep: None"],
    ]
    text = "\n".join(lines)
    assert "kernel: float32[3,4] P(in, out)" in text
    total = lines[-4].split("│")
    assert total[4].endswith("Total ") and total[5].strip() == "16 (64 B)"
    assert lines[-2] == "" and lines[-1].strip() == "Total Parameters: 16 (64 B)"


def test_helpers_of_products_in_8_bits():
    a, b = weft.random.normal(KEY, (4, 6)), weft.random.normal(weft.random.key(1), (6, 3))
    one, history = jnp.ones(1), jnp.zeros(4).at[1].set(3.0)
    numbers = (((1,), (0,)), ((), ()))

    def loss(a, b, scales, histories):
        qa, sa = fp8_ops.in_q(jnp.float32, jnp.float8_e4m3fn, a, scales[0], histories[0])
        qb, sb = fp8_ops.in_q(jnp.float32, jnp.float8_e4m3fn, b, scales[1], histories[1])
        y = fp8_ops.quantized_dot(
            a, qa, sa, b, qb, sb, scales[2], histories[2], numbers, jnp.float32
        )
        return jnp.sum(fp8_ops.out_dq(jnp.float32, sa, sb, y) * jnp.arange(12.0).reshape(4, 3))

    histories = [history, history * 2, history * 5]
    grads = weft.jit(weft.grad(loss, argnums=(0, 1, 2, 3)))(a, b, [one] * 3, histories)
    exact = weft.grad(lambda a, b: jnp.sum((a @ b) * jnp.arange(12.0).reshape(4, 3)), (0, 1))(a, b)
    for ours, plain in zip(grads[:2], exact):
        assert float(jnp.abs(ours - plain).max()) < 0.1 * float(jnp.abs(plain).max())
    # the "gradients" of scales and histories are their next values
    largest = [float(jnp.abs(a).max()), float(jnp.abs(b).max()), 11.0]
    limits = [448.0, 448.0, 57344.0]
    for new_scale, old, limit in zip(grads[2], histories, limits):
        np.testing.assert_allclose(new_scale[0], float(old.max()) / limit, rtol=1e-6)
    for new_history, value in zip(grads[3], largest):
        np.testing.assert_allclose(new_history[0], value, rtol=1e-6)
