"""Operations that are in no recorded module of JAX, and programs of several devices."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from tests.mlir.test_jax_modules import MODULES, array, compare
from weft import export

F = np.float32
DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((2, 3)).astype(F)
T, V = "tensor<2x3xf32>", "tensor<3xf32>"
SCALE, OFFSET = np.array([1, 2, 3], F), np.array([0, -1, 1], F)


def read(body, takes, gives, attributes=""):
    arguments = ", ".join(f"%a{i}: {kind}" for i, kind in enumerate(takes))
    text = (
        f"module {attributes} {{ func.func public @main({arguments}) -> ({gives}) {{\n{body}\n}} }}"
    )
    return export.from_stablehlo(text)


def norm(name, ins, outs, operands):
    args = ", ".join(f"%a{i}" for i in range(len(ins)))
    body = (
        f'%0{f":{len(outs)}" if len(outs) > 1 else ""} = "stablehlo.{name}"({args})'
        " <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> :"
        f" ({', '.join(ins)}) -> ({', '.join(outs)})\n"
    )
    names = ", ".join(f"%0#{i}" for i in range(len(outs))) if len(outs) > 1 else "%0"
    body += f"return {names} : {', '.join(outs)}"
    return [np.asarray(x) for x in read(body, ins, ", ".join(outs))(*operands)]


def test_batch_normalisation():
    mean, variance = X.mean(0), X.var(0)
    plain = (X - mean) / np.sqrt(variance + 1e-3)
    expected = plain * SCALE + OFFSET
    given = [X, SCALE, OFFSET, mean, variance]
    (out,) = norm("batch_norm_inference", [T, V, V, V, V], [T], given)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)
    outs = norm("batch_norm_training", [T, V, V], [T, V, V], [X, SCALE, OFFSET])
    for got, wanted in zip(outs, (expected, mean, variance), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)

    def whole(x, scale, offset):
        centred = (x - x.mean(0)) / weft.numpy.sqrt(x.var(0) + 1e-3)
        return ((centred * scale + offset) * X * 2).sum()

    wanted = weft.grad(whole, (0, 1, 2))(X, SCALE, OFFSET)
    given = [X, SCALE, mean, variance, X * 2]
    for got, one in zip(
        norm("batch_norm_grad", [T, V, V, V, T], [T, V, V], given), wanted, strict=True
    ):
        np.testing.assert_allclose(got, one, rtol=1e-4, atol=1e-4)


ONE = {
    "einsum": (
        'stablehlo.einsum %a0, %a0, config = "ij,kj->ik" : (T, T) -> tensor<2x2xf32>',
        X @ X.T,
    ),
    "broadcast_add": ("chlo.broadcast_add %a0, %a1 : (T, V) -> T", X + SCALE),
    "broadcast_compare": (
        ("chlo.broadcast_compare %a0, %a1 {comparison_direction = #chlo<comparison_direction GT>} :"
        " (T, V) -> tensor<2x3xi1>"),
        X > SCALE,
    ),
    "is_inf": ("chlo.is_inf %a0 : T -> tensor<2x3xi1>", np.isinf(X)),
    "map": (
        ('"stablehlo.map"(%a0) <{dimensions = array<i64: 0, 1>}> ({\n^bb0(%x: tensor<f32>):\n'
        "%y = stablehlo.multiply %x, %x : tensor<f32>\nstablehlo.return %y : tensor<f32>\n}) :"
        " (T) -> T"),
        X * X,
    ),
    "sort down": (
        ('"stablehlo.sort"(%a0) <{dimension = 1 : i64}> ({\n'
        "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
        "%z = stablehlo.compare GT, %x, %y, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "stablehlo.return %z : tensor<i1>\n}) : (T) -> T"),
        -np.sort(-X, 1),
    ),
    "sort by size": (
        ('"stablehlo.sort"(%a0) <{dimension = 1 : i64}> ({\n'
        "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
        "%p = stablehlo.abs %x : tensor<f32>\n%q = stablehlo.abs %y : tensor<f32>\n"
        "%z = stablehlo.compare LT, %p, %q, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
        "stablehlo.return %z : tensor<i1>\n}) : (T) -> T"),
        np.take_along_axis(X, np.argsort(np.abs(X), 1), 1),
    ),
    "index_select": (
        ("stablehlo.torch_index_select %a0, %a2, dim = 1, batch_dims = 0 :"
        " (T, tensor<2xi32>) -> tensor<2x2xf32>"),
        X[:, [2, 0]],
    ),
    "if": (
        ('"stablehlo.if"(%a3) ({\n stablehlo.return %a0 : T\n}, {\n'
        " %n = stablehlo.negate %a0 : T\n stablehlo.return %n : T\n}) : (tensor<i1>) -> T"),
        -X,
    ),
    "scatter by function": (
        ('"stablehlo.scatter"(%a0, %a2, %a4) <{scatter_dimension_numbers = #stablehlo.scatter<'
        "update_window_dims = [0], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1],"
        " index_vector_dim = 1>}> ({\n^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
        "%p = stablehlo.add %x, %x : tensor<f32>\n%q = stablehlo.add %p, %y : tensor<f32>\n"
        "stablehlo.return %q : tensor<f32>\n}) : (T, tensor<2xi32>, tensor<2x2xf32>) -> T"),
        np.stack([2 * X[:, 0] + 1, X[:, 1], 2 * X[:, 2] + 1], 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ONE)
def test_operations(name):
    text, expected = ONE[name]
    takes = [T, V, "tensor<2xi32>", "tensor<i1>", "tensor<2x2xf32>"]
    sizes = "".join(f"{n}x" for n in expected.shape)
    kind = f"tensor<{sizes}{'i1' if expected.dtype == bool else 'f32'}>"
    body = re.sub(r"\bV\b", V, re.sub(r"\bT\b", T, text))
    f = read(f"%0 = {body}\nreturn %0 : {kind}", takes, kind)
    (got,) = f(X, SCALE, np.array([2, 0], np.int32), False, np.ones((2, 2), F))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


GROUPS = "replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>"
SUM = (
    f'%0 = "stablehlo.all_reduce"(%a0) <{{{GROUPS}}}> ({{\n'
    "^bb0(%x: tensor<f32>, %y: tensor<f32>):\n"
    "%z = stablehlo.add %x, %y : tensor<f32>\nstablehlo.return %z : tensor<f32>\n}) :"
    " (tensor<2xf32>) -> tensor<2xf32>\n%1 = stablehlo.partition_id : tensor<ui32>\n"
    '%2 = "stablehlo.collective_permute"(%a0) <{source_target_pairs = dense<[[0, 1], [1, 2],'
    " [2, 3], [3, 0]]> : tensor<4x2xi64>}> : (tensor<2xf32>) -> tensor<2xf32>\n"
    f'%3 = "stablehlo.all_gather"(%a0) <{{all_gather_dim = 0 : i64, {GROUPS}}}> :'
    " (tensor<2xf32>) -> tensor<4xf32>\n"
    "return %0, %1, %2, %3 : tensor<2xf32>, tensor<ui32>, tensor<2xf32>, tensor<4xf32>"
)


def test_a_program_for_each_device():
    attributes = "attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32}"
    gives = "tensor<2xf32>, tensor<ui32>, tensor<2xf32>, tensor<4xf32>"
    f = read(SUM, ["tensor<2xf32>"], gives, attributes)
    assert f.nr_devices == 4
    x = DRAW.standard_normal((4, 2)).astype(F)
    pairs = x.reshape(2, 2, 2)
    sums, numbers, moved, gathered = f.per_device(x)
    np.testing.assert_allclose(sums, np.repeat(pairs.sum(1), 2, 0), rtol=1e-6)
    np.testing.assert_array_equal(numbers, np.arange(4))
    np.testing.assert_array_equal(moved, np.roll(x, 1, 0))
    np.testing.assert_array_equal(gathered, np.repeat(pairs.reshape(2, 4), 2, 0))
    with pytest.raises(export.StableHLOError, match="call per_device"):
        f(x[0])


def test_shardings_are_ignored_with_one_warning():
    module = MODULES["sharded constraint"]
    with pytest.warns(UserWarning, match="pass mesh=") as caught:
        f = export.from_stablehlo(module["text"])
    assert len(caught) == 1
    compare("sharded constraint", f(array(module["ins"][0]))[0], array(module["outs"][0]))


def over_mesh():
    """Run JAX's sharded modules over meshes of four devices."""
    devices = weft.devices()
    for name, module in MODULES.items():
        if not name.startswith("sharded"):
            continue
        names = ("a", "b") if '"a"=2' in module["text"] else ("d",)
        grid = np.array(devices[:4]).reshape((2, 2) if len(names) == 2 else 4)
        f = export.from_stablehlo(module["text"], mesh=weft.sharding.Mesh(grid, names))
        found = f(*[array(x) for x in module["ins"]])
        for got, expected in zip(found, module["outs"], strict=True):
            compare(name, got, array(expected))
        print(name, max(len(x.sharding.device_set) for x in found))


def test_programs_over_a_mesh():
    root = Path(__file__).parent.parent.parent
    told = subprocess.run(
        [sys.executable, "-c", "from tests.mlir.test_operations import over_mesh; over_mesh()"],
        env=dict(os.environ, WEFT_NUM_CPU_DEVICES="4", WEFT_PLATFORMS="cpu", PYTHONPATH=str(root)),
        cwd=root,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert told.returncode == 0, told.stderr[-3000:]
    lines = told.stdout.splitlines()
    assert len(lines) == 12 and "sharded constraint 4" in lines


def test_modules_are_no_exports():
    with pytest.raises(export.MalformedExportError, match=r"a module .* with .*from_stablehlo"):
        export.deserialize(b"ML\xefR\x0dStableHLO_v1.0")
    with pytest.raises(export.MalformedExportError, match="damaged"):
        export.deserialize(b"\x14\x00\x00\x00" + bytes(200) + b"ML\xefR\x0dStableHLO_v1.0")
