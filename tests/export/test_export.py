"""Exported functions: written, read and called again; what cannot be written says so."""

import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.samples import all_samples
from weft import export, lax, random
from weft.base import knobs
from weft.export.encoding import MARK


def again(fun, *args, order=0):
    made = export.export(weft.jit(fun))(*args)
    return export.deserialize(made.serialize(vjp_order=order))


def one_of_each():
    seen, chosen = set(), []
    for sample in all_samples():
        if sample.prim not in seen and sample.axis is None:
            seen.add(sample.prim)
            chosen.append(sample)
    return chosen


# Primitives that act on the outside, that carry functions of the user's own where they cannot be
# replaced by a program, or that speak of the parts of a mesh's devices.
UNWRITABLE = {
    "after_all", "check", "create_token", "dce_sink", "debug_callback", "debug_print",
    "inspect_sharding", "io_callback", "mesh_collective", "process_all_gather",
    "parts_to_shared", "parts_to_sum", "process_all_to_all", "process_fault", "process_permute",
    "pure_callback", "shared_to_parts", "sum_to_parts",
}  # fmt: skip


def test_one_sample_of_every_primitive_comes_back():
    rng = np.random.default_rng(0)
    refused = set()
    with knobs.scope(backend="reference"):
        for sample in one_of_each():
            fun, args = sample.function(sample.dtypes[0]), sample.operands(sample.dtypes[0], rng)
            try:
                made = export.export(weft.jit(fun))(*args)
                blob = made.serialize()
            except ValueError:
                refused.add(sample.prim)
                continue
            expected = weft.tree.leaves(made.call(*args))
            found = weft.tree.leaves(export.deserialize(blob).call(*args))
            for a, b in zip(expected, found, strict=True):
                assert (a.dtype, a.shape, a.weak_type) == (b.dtype, b.shape, b.weak_type)
                if not weft.dtypes.issubdtype(a.dtype, weft.dtypes.extended):
                    np.testing.assert_array_equal(a, b, err_msg=sample.name)
    assert refused == UNWRITABLE


def test_trees_constants_and_control_flow():
    weight = jnp.arange(4.0)

    def fun(params, n, *, scale):
        def body(carry, x):
            return carry * 0.5 + x, lax.cond(x > 1, jnp.sin, jnp.cos, x)

        last, rows = lax.scan(body, params["w"][0], params["w"] * weight)
        return [last * scale, {"rows": rows, "n": n + 1}], None

    args = {"w": jnp.ones(4)}, 3
    made = export.export(weft.jit(fun))(*args, scale=2.0)
    found = export.deserialize(made.serialize()).call(*args, scale=2.0)
    expected = fun(*args, scale=2.0)
    assert weft.tree.structure(found) == weft.tree.structure(expected)
    for a, b in zip(weft.tree.leaves(found), weft.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_keys_and_static_arguments():
    draw = weft.jit(lambda key, shape: random.normal(key, shape), static_argnums=1)
    made = export.export(draw)(random.key(0), (3,))
    found = export.deserialize(made.serialize()).call(random.key(5))
    np.testing.assert_array_equal(found, random.normal(random.key(5), (3,)))


def test_calls_nest_in_other_functions():
    f = again(lambda x: jnp.sin(x) * 2, jnp.ones(3))
    x = jnp.arange(3.0)
    np.testing.assert_allclose(weft.jit(lambda x: f.call(x) + 1)(x), np.sin(x) * 2 + 1, rtol=1e-6)
    xs = jnp.stack([x, x + 1])
    np.testing.assert_allclose(weft.vmap(f.call)(xs), np.sin(xs) * 2, rtol=1e-6)


@weft.custom_jvp
def half_sloped(x):
    return x**2


half_sloped.defjvp(lambda primals, tangents: (primals[0] ** 2, primals[0] * tangents[0]))


def test_derivatives_are_those_of_the_function():
    fun = lambda x, n: half_sloped(x).sum() * n
    x = jnp.arange(3.0)
    made = export.export(weft.jit(fun))(x, 2)
    expected = weft.grad(fun)(x, 2)
    np.testing.assert_allclose(weft.grad(made.call)(x, 2), expected)
    with_vjp = export.deserialize(made.serialize(vjp_order=1))
    assert with_vjp.has_vjp()
    np.testing.assert_allclose(weft.grad(with_vjp.call)(x, 2), expected)
    without = export.deserialize(made.serialize())
    assert not without.has_vjp()
    with pytest.raises(ValueError, match="vjp_order"):
        weft.grad(without.call)(x, 2)


class Pair(NamedTuple):
    a: object
    b: object


class Box:
    def __init__(self, content, label):
        self.content, self.label = content, label


weft.tree_util.register_pytree_node(
    Box, lambda box: ((box.content,), box.label), lambda label, c: Box(c[0], label)
)


def test_registered_classes():
    fun = weft.jit(lambda p: Pair(p.b, p.a))
    with pytest.raises(ValueError, match="register_namedtuple_serialization"):
        export.export(fun)(Pair(1.0, 2.0)).serialize()
    export.register_namedtuple_serialization(Pair, serialized_name="tests.Pair")
    found = export.deserialize(export.export(fun)(Pair(1.0, 2.0)).serialize()).call(Pair(3.0, 4.0))
    assert type(found) is Pair and found == (4.0, 3.0)
    with pytest.raises(ValueError, match="already"):
        export.register_namedtuple_serialization(Pair, serialized_name="tests.Other")
    export.register_pytree_node_serialization(
        Box,
        serialized_name="tests.Box",
        serialize_auxdata=str.encode,
        deserialize_auxdata=bytes.decode,
        from_children=lambda label, c: Box(c[0], label),
    )
    out = again(lambda box: Box(box.content + 1, "out"), Box(1.0, "in")).call(Box(2.0, "in"))
    assert (float(out.content), out.label) == (3.0, "out")


def test_what_does_not_fit_is_refused():
    f = again(lambda x: x, jnp.ones(3))
    with pytest.raises(ValueError, match=r"float32\[3\], got float32\[4\]"):
        f.call(jnp.ones(4))
    with pytest.raises(ValueError, match="arguments like"):
        f.call(jnp.ones(3), 1.0)
    with pytest.raises(ValueError, match="result of jit"):
        export.export(lambda x: x)
    with pytest.raises(ValueError, match="platforms are"):
        export.export(weft.jit(lambda x: x), platforms=["abacus"])
    far = export.export(weft.jit(lambda x: x), platforms=["cuda"])(1.0)
    with pytest.raises(ValueError, match="exported for cuda"):
        far.call(1.0)
    anyway = export.export(
        weft.jit(lambda x: x),
        platforms=["cuda"],
        disabled_checks=[export.DisabledSafetyCheck.platform()],
    )(1.0)
    assert export.deserialize(anyway.serialize()).call(2.0) == 2.0
    printing = weft.jit(lambda x: weft.debug.print("{}", x))
    with pytest.raises(ValueError, match="side effects"):
        export.export(printing)(1.0).serialize()


def test_bytes_that_are_damaged_or_hostile_are_refused():
    blob = bytes(export.export(weft.jit(lambda x: x + jnp.arange(3.0)))(1.0).serialize())
    for bad in (b"", b"nonsense", blob[: len(MARK) + 4], blob[:-1], blob + b"x"):
        with pytest.raises(ValueError, match="exported function"):
            export.deserialize(bad)
    start = len(MARK) + 8
    (size,) = struct.unpack("<Q", blob[len(MARK) : start])

    def changed(change):
        held = json.loads(blob[start : start + size])
        change(held)
        text = json.dumps(held).encode()
        return MARK + struct.pack("<Q", len(text)) + text + blob[start + size :]

    def call_system(held):
        held["value"]["v"][1][1] = {"k": "record", "c": "os:system", "v": ["true"]}

    def call_weft(held):
        held["value"]["v"][1][1] = {"k": "record", "c": "weft.api.jit:jit", "v": []}

    def unknown_kind(held):
        held["value"]["v"][1][1] = {"k": "pickle", "v": ""}

    for change in (call_system, call_weft, unknown_kind):
        with pytest.raises(ValueError, match="exported function"):
            export.deserialize(changed(change))


# --- bytes from others ----------------------------------------------------------------------------


def forged(blob, change):
    """An export with its text changed by a function, and maybe bytes behind it."""
    start = len(MARK) + 8
    (size,) = struct.unpack("<Q", blob[len(MARK) : start])
    held = json.loads(blob[start : start + size])
    more = change(held) or b""
    text = json.dumps(held).encode()
    return MARK + struct.pack("<Q", len(text)) + text + bytes(blob[start + size :]) + more


def program_of(held):
    (program,) = [value for key, value in held["value"]["v"] if key == "program"]
    return program["jaxpr"]


def equation(held, name):
    (found,) = [e for e in program_of(held)["equations"] if e[0] == name]
    return found


def refuse(blob, change):
    with pytest.raises(export.MalformedExportError, match="exported function"):
        export.deserialize(forged(blob, change))


def test_a_constant_is_not_longer_than_its_bytes():
    table = jnp.arange(40.0)
    blob = export.export(weft.jit(lambda x: x + table))(jnp.ones(40)).serialize()

    def longer(held):
        held["arrays"][0][1] = [4000]
        return bytes(4)

    def typed_longer(held):
        for aval in (program_of(held)["constants"][0], *_arrays(held)):
            aval["v"][0] = [4000]

    def _arrays(held):
        (program,) = [value for key, value in held["value"]["v"] if key == "program"]
        return [c["aval"] for c in program["consts"]]

    refuse(blob, longer)
    refuse(blob, typed_longer)
    refuse(blob, lambda held: held["arrays"][0].__setitem__(0, "float16"))
    refuse(blob, lambda held: held["arrays"][0].__setitem__(0, "O"))
    refuse(blob, lambda held: held["arrays"][0].__setitem__(1, [40.0]))
    refuse(blob, lambda held: held["arrays"][0].__setitem__(1, [-40, -1]))


def loop(x, n):
    body = lambda c: (c[0] + 1, jnp.sin(c[1]))
    return lax.while_loop(lambda c: c[0] < n, body, (jnp.int32(0), x))


def rows(x, n):
    step = lambda c, r: (c + r, lax.cond(r > n, jnp.sin, jnp.cos, r))
    return lax.scan(step, jnp.float32(0), x)


@pytest.mark.parametrize("fun, name", ((loop, "while"), (rows, "scan")))
def test_every_type_of_a_program_is_derived_anew(fun, name):
    blob = export.export(weft.jit(fun))(jnp.ones(8), 3).serialize()
    sizes = []

    def look(x, path=()):
        if isinstance(x, dict) and x.get("k") == "aval":
            sizes.append(path)
        items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
        for key, item in items:
            look(item, (*path, key))

    forged(blob, lambda held: look(held))
    assert len(sizes) > 12

    def at(held, path):
        for key in path:
            held = held[key]
        return held

    for path in sizes:
        for shape in ([4000], [4000, 2]):
            refuse(blob, lambda held, p=path, s=shape: at(held, p)["v"].__setitem__(0, s))
        refuse(blob, lambda held, p=path: at(held, p)["v"].__setitem__(1, "complex128"))
    export.deserialize(blob).call(jnp.ones(8), 3)


def test_parameters_and_operands_fit_their_operation():
    def fun(x, n):
        return lax.dynamic_slice(x.T, (n, n), (2, 2)), jnp.sum(x, 1), loop(x[0], n)

    blob = export.export(weft.jit(fun))(jnp.ones((4, 4)), 1).serialize()

    def parameter(name, key, value):
        return lambda held: dict(equation(held, name)[3])[key].__setitem__("v", value)

    def set_parameter(name, key, value):
        def change(held):
            (pair,) = [p for p in equation(held, name)[3] if p[0] == key]
            pair[1] = value

        return change

    refuse(blob, parameter("dynamic_slice", "slice_sizes", [2, 5]))
    refuse(blob, parameter("dynamic_slice", "slice_sizes", [2.0, 2]))
    refuse(blob, parameter("transpose", "permutation", [0, 0]))
    refuse(blob, parameter("reduce_sum", "axes", [1.0]))
    refuse(blob, parameter("reduce_sum", "axes", [1, 1]))
    refuse(blob, set_parameter("while", "cond_nconsts", 5))
    refuse(blob, set_parameter("while", "body_nconsts", -1))
    refuse(blob, set_parameter("while", "body_jaxpr", None))
    for operand in (-1, 1000, 2**70, True, None, "0"):
        refuse(blob, lambda held, x=operand: equation(held, "transpose")[1].__setitem__(0, x))
    refuse(blob, lambda held: equation(held, "transpose")[3].clear())
    refuse(blob, lambda held: equation(held, "transpose")[3].append(["more", 1]))
    ordered = export.export(weft.jit(jnp.sort))(jnp.ones(4)).serialize()
    for keys in (0, 2, -1):
        refuse(ordered, set_parameter("sort", "num_keys", keys))
    image, taps = jnp.ones((1, 2, 5)), jnp.ones((3, 2, 2))
    filtered = export.export(weft.jit(lambda x: lax.conv(x, taps, (1,), "SAME")))(image).serialize()

    def repeat_an_axis(held):
        (numbers,) = [
            v for k, v in equation(held, "conv_general_dilated")[3] if k == "dimension_numbers"
        ]
        numbers["v"][2]["v"][1] = 0

    refuse(filtered, repeat_an_axis)
    special = export.export(weft.jit(lambda x: lax.igamma(lax.erf(x), x)))(jnp.ones(2))
    for name in ("erf", "igamma"):
        refuse(special.serialize(), lambda held, n=name: equation(held, n)[1].append(0))
    for name in ("jit", "debug_callback", "pure_callback", "custom_lin", "run_state", "no_such"):
        refuse(blob, lambda held, n=name: equation(held, "transpose").__setitem__(0, n))


def test_a_branch_is_chosen_among_those_there_are():
    fun = lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x)
    blob = export.export(weft.jit(fun))(1, jnp.ones(3)).serialize()

    def unclamped(held):
        program = program_of(held)
        index = next(n for n, e in enumerate(program["equations"]) if e[0] == "clamp")
        clamp, cond = program["equations"][index], equation(held, "cond")
        bound = len(program["constants"]) + len(program["inputs"]) + index
        assert cond[1][0] == bound
        clamp[0], clamp[1], clamp[3] = "neg", [clamp[1][1]], []

    made = export.deserialize(forged(blob, unclamped))
    x = jnp.ones(3)
    np.testing.assert_array_equal(made.call(-1_000_000_000, x), jnp.tan(x))
    np.testing.assert_array_equal(made.call(1_000_000_000, x), jnp.sin(x))


def test_one_error_for_whatever_is_wrong():
    blob = bytes(export.export(weft.jit(rows))(jnp.ones(8), 3).serialize(vjp_order=0))
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(2000):
        data = bytearray(blob)
        for _ in range(int(rng.integers(1, 4))):
            data[int(rng.integers(len(data)))] = int(rng.integers(256))
        try:
            export.deserialize(data)
        except export.MalformedExportError:
            refused += 1
    assert refused > 1000
    deep = b'{"value": ' + b"[" * 100_000 + b"]" * 100_000 + b', "arrays": []}'
    with pytest.raises(export.MalformedExportError):
        export.deserialize(MARK + struct.pack("<Q", len(deep)) + deep)
    with pytest.raises(TypeError):
        export.deserialize(12)


def test_results_are_counted_before_they_are_made():
    blob = export.export(weft.jit(jnp.unstack))(jnp.ones(3)).serialize()
    for size in (4, 1 << 31, 1 << 40):  # a list of as many would fill all memory
        inputs = lambda held, n=size: program_of(held)["inputs"][0]["v"].__setitem__(0, [n])
        with pytest.raises(export.MalformedExportError, match="unstack"):
            export.deserialize(forged(blob, inputs))


def test_calls_of_what_was_read_have_one_error_too():
    blob = export.export(weft.jit(jnp.sin))(jnp.ones(3)).serialize()
    two = export.deserialize(forged(blob, lambda held: equation(held, "sin")[1].append(0)))
    with pytest.raises(export.MalformedExportError, match="cannot be compiled: TypeError"):
        two.call(jnp.ones(3))
    with pytest.raises(ValueError, match="exported for argument 0"):
        two.call(jnp.ones(4))
    sound = export.deserialize(export.export(weft.jit(jnp.log))(jnp.ones(3)).serialize())
    with weft.debug_nans(True), pytest.raises(FloatingPointError):
        sound.call(-jnp.ones(3))


def test_programs_of_64_bits_are_read_anywhere():
    with weft.enable_x64(True):
        blob = export.export(weft.jit(lambda x: jnp.sum(x + 1)))(np.arange(3)).serialize()
    assert str(export.deserialize(blob).out_avals[0].dtype) == "int64"


def test_mutants_are_read_and_called_between_guard_pages():
    tool = Path(__file__).resolve().parents[2] / "tools" / "fuzz_exports.py"
    command = [sys.executable, str(tool), "--reads", "1500", "--calls", "30", "--seed", "7"]
    paths = [str(tool.parents[1]), os.environ.get("PYTHONPATH", "")]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    found = subprocess.run(command, capture_output=True, text=True, env=env)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "1,500  mutants" in found.stdout and "30  calls" in found.stdout
