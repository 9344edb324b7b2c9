"""Functions that JAX exported run without JAX (`tools/record_exports.py` records them)."""

import json
import lzma
import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import weft
from tests.mlir.test_jax_modules import LOOSE, MODULES, array, compare
from weft import export
from weft.mlir.errors import BYTECODE
from weft.sharding import Mesh, NamedSharding
from weft.sharding import PartitionSpec as P

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = Path(__file__).parent / "data"


def record(name):
    return json.loads(lzma.decompress((DATA / name).read_bytes()))


EXPORTS = {m["name"]: m for m in record("jax_exports.json.xz")}
ARTIFACTS = record("jax_artifacts.json.xz")
SECONDS = 20  # for damaged bytes; those here take milliseconds


class Point(NamedTuple):
    x: object
    y: object


export.register_namedtuple_serialization(Point, serialized_name="tests.Point")


def read(name):
    return export.deserialize(bytes.fromhex(EXPORTS[name]["blob"]))


def near(got, expected, bound=2e-5):
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(got, expected)
        return
    if expected.dtype.itemsize == 2:
        got, expected, bound = got.astype(np.float32), expected.astype(np.float32), 1e-2
    top = np.abs(expected[np.isfinite(expected)]).max(initial=0)
    np.testing.assert_allclose(got, expected, rtol=bound, atol=bound * (top + 0.1))


def call(made, leaves):
    """The leaves of the results, for arguments as JAX's tree has them."""
    args, kwargs = weft.tree.unflatten(made.in_tree, leaves)
    return weft.tree.leaves(made.call(*args, **kwargs))


@pytest.mark.parametrize("name", [name for name in EXPORTS if name != "keys"])
def test_exports_of_jax_run(name):
    made = read(name)
    for row in EXPORTS[name]["calls"]:
        ins = [array(x) for x in row["ins"]]
        found = call(made, ins)
        for got, held in zip(found, row["outs"], strict=True):
            near(got, array(held), 2e-4 if name == "linear algebra" else 2e-5)
        if "cotangents" in row:
            check_derivative(made, ins, row)


def on_four_devices():
    """What runs in a process with four devices: functions for them, over meshes of weft's."""
    for name, sizes, names in (
        ("sharded", (2, 2), ("data", "model")),
        ("divided", (4,), ("data",)),
    ):
        made, (row,) = read(name), EXPORTS[name]["calls"]
        mesh = Mesh(np.asarray(weft.devices()).reshape(sizes), names)
        assert made.nr_devices == 4
        ins = [array(x) for x in row["ins"]]
        try:
            made.call(*ins)
        except ValueError as error:
            assert "exported for 4 devices and is called with arguments on 1" in str(error)
        else:
            raise AssertionError("it ran on one device")
        there = weft.device_put(ins, NamedSharding(mesh, P()))
        found = call(made, there)
        assert len(found[0].sharding.device_set) == 4
        for got, held in zip(found, row["outs"], strict=True):
            near(got, array(held))
        shardings = made.in_shardings_jax(mesh)
        specs = {"sharded": [("data",), (None, "model")], "divided": [None]}[name]
        expected = [spec if spec is None else NamedSharding(mesh, P(*spec)) for spec in specs]
        assert list(shardings) == expected


def test_exports_over_four_devices():
    code = "from tests.export.test_jax_exports import on_four_devices; on_four_devices()"
    settings = dict(os.environ, WEFT_NUM_CPU_DEVICES="4", PYTHONPATH=str(ROOT))
    done = subprocess.run(
        [sys.executable, "-c", code], env=settings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def check_derivative(made, ins, row):
    """Gradients of weft's are those that JAX's serialised derivative gives."""
    moving = [i for i, x in enumerate(ins) if np.issubdtype(x.dtype, np.floating)]

    def total(*given):
        leaves = list(ins)
        for i, x in zip(moving, given, strict=True):
            leaves[i] = x
        return sum([y.sum() for y in call(made, leaves) if np.issubdtype(y.dtype, np.floating)])

    found = weft.grad(total, argnums=tuple(range(len(moving))))(*[ins[i] for i in moving])
    for got, held in zip(found, row["cotangents"], strict=True):
        near(got, array(held), 2e-4)


def test_keys_and_their_bits():
    made, (row,) = read("keys"), EXPORTS["keys"]["calls"]
    (bits,), (split, drawn) = [[array(x) for x in row[part]] for part in ("ins", "outs")]
    keys, numbers = made.call(weft.random.wrap_key_data(bits))
    np.testing.assert_array_equal(weft.random.key_data(keys), split)
    np.testing.assert_array_equal(numbers, drawn)


def test_what_an_export_says():
    made = read("dictionaries")
    assert made.fun_name == "network" and made.platforms == ("cpu",) and made.has_vjp()
    assert [a.str_short() for a in made.in_avals][-1] == "float32[4,6]"
    assert "stablehlo.dot_general" in made.mlir_module()
    assert set(weft.tree.unflatten(made.out_tree, [0, 1])) == {"out", "probabilities"}
    with pytest.raises(ValueError, match="serialized without its derivative"):
        weft.grad(lambda x: read("fft").call(x)[1].sum())(np.ones((4, 6), "f4"))


@pytest.mark.parametrize("name", ["dictionaries", "open sums", "several platforms"])
def test_read_exports_are_written_again(name):
    made = read(name)
    again = export.deserialize(made.serialize(vjp_order=1 if name == "dictionaries" else 0))
    leaves = [array(x) for x in EXPORTS[name]["calls"][0]["ins"]]
    for a, b in zip(call(made, leaves), call(again, leaves), strict=True):
        np.testing.assert_array_equal(a, b)


def test_wrong_arguments():
    made = read("open sums")
    good = np.ones((2, 3), "f4"), np.ones((5, 3), "f4")
    assert made.call(*good).shape == (21,)
    with pytest.raises(ValueError, match="is 4, but 2\\*a \\+ 1 would be 5"):
        made.call(good[0], np.ones((4, 3), "f4"))
    with pytest.raises(ValueError, match="argument 0 of type float32"):
        read("fft").call(np.ones((4, 7), "f4"))


# --- modules in StableHLO's binary form -----------------------------------------------------------


def same_program(name):
    """A module's function from its binary form, and whether its text gives the same program."""
    binary = export.from_stablehlo(bytes.fromhex(ARTIFACTS[name]))
    text = export.from_stablehlo(MODULES[name]["text"])
    assert repr(binary) == repr(text)
    known = () in binary._programs and () in text._programs
    return binary, known and str(binary._programs[()]) == str(text._programs[()])


def check_binary(names, every):
    failures, others = [], []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the shardings of the StableHLO module")
        for name in names:
            found, is_same = same_program(name)
            if is_same:
                continue
            others.append(name)
            if len(others) % every:
                continue
            ins, outs = [[array(x) for x in MODULES[name][part]] for part in ("ins", "outs")]
            try:
                for got, expected in zip(found(*ins), outs, strict=True):
                    compare(name, got, expected)
            except Exception as error:
                failures.append(f"{name}: {type(error).__name__}: {str(error)[:300]}")
    assert not failures, "\n".join(failures)
    return others


def test_all_modules_in_binary_form():
    """Each gives the program of its text, or one that JAX simplified before it wrote it; a part of
    those runs to JAX's results."""
    assert len(ARTIFACTS) >= 300 and LOOSE
    others = check_binary(list(ARTIFACTS), 10)
    assert len(others) < len(ARTIFACTS) / 2


@pytest.mark.full
@pytest.mark.parametrize("part", range(6))
def test_binary_modules_give_jax_results(part):
    check_binary(list(ARTIFACTS)[part::6], 1)


def test_files_in_binary_form(tmp_path):
    path = tmp_path / "module.mlirbc"
    path.write_bytes(bytes.fromhex(ARTIFACTS["lax erf"]))
    x = np.linspace(-2, 2, 12, dtype="f4").reshape(3, 4)
    f = export.from_stablehlo(path)
    np.testing.assert_allclose(f(x)[0], weft.lax.erf(x), rtol=2e-6)
    with pytest.raises(export.StableHLOError, match="takes tensor<3x4xf32> as argument 0, got"):
        f(np.ones(3, "f4"))


# --- damaged bytes --------------------------------------------------------------------------------

SMALL = [bytes.fromhex(m["blob"]) for m in EXPORTS.values() if len(m["blob"]) < 9000]
MODULE_BYTES = [raw for raw in map(bytes.fromhex, ARTIFACTS.values()) if len(raw) < 2500]


def mutated(raw, draw):
    """Bytes with one to four changes."""
    data = bytearray(raw)
    for _ in range(draw.randint(1, 4)):
        i = draw.randrange(len(data))
        kind = draw.randrange(6)
        if kind <= 2:
            data[i] = draw.choice([0, 1, 2, 3, 5, 127, 128, 255, draw.randrange(256)])
        elif kind == 3:
            data[i] ^= 1 << draw.randrange(8)
        elif kind == 4 and draw.random() < 0.3:
            del data[i:]
        else:
            j = min(len(data), i + draw.randint(1, 8))
            data[i:i] = data[i:j] if draw.random() < 0.5 else bytes(draw.randrange(5))
            if draw.random() < 0.5:
                del data[i : i + draw.randrange(6)]
        if not data:
            return b"\x00"
    return bytes(data)


def check_damaged(samples, function, error, count, seed):
    draw = random.Random(seed)
    read = refused = 0
    for number in range(count):
        raw = mutated(draw.choice(samples), draw)
        began = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                function(raw)
            read += 1
        except error:
            refused += 1
        except Exception as other:
            text = f"{seed}, {number}: {type(other).__name__}: {other}\n{raw.hex()}"
            raise AssertionError(text) from other
        assert time.monotonic() - began < SECONDS, f"{seed}, {number} takes long: {raw.hex()}"
    return read, refused


def of_module(raw):
    # bytes without the mark are text
    return export.from_stablehlo(BYTECODE + raw[4:] if len(raw) > 4 else BYTECODE)


def test_damaged_exports():
    read, refused = check_damaged(SMALL, export.deserialize, export.MalformedExportError, 150, 3)
    assert refused > 40 and read
    read, refused = check_damaged(MODULE_BYTES, of_module, export.StableHLOError, 150, 4)
    assert refused > 40 and read


@pytest.mark.full
@pytest.mark.parametrize("seed", range(8))
def test_many_damaged_exports(seed):
    check_damaged(SMALL, export.deserialize, export.MalformedExportError, 800, 10 + seed)
    check_damaged(MODULE_BYTES, of_module, export.StableHLOError, 800, 50 + seed)


def test_every_end_of_a_file():
    """Bytes that end too early are refused, wherever they end."""
    raw = bytes.fromhex(EXPORTS["several platforms"]["blob"])
    needed = len(raw.rstrip(b"\0"))  # the rest is padding
    for end in range(0, needed, 7):
        with pytest.raises(export.MalformedExportError):
            export.deserialize(raw[:end])
