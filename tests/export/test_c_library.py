"""Functions as libraries for C: the same bits as ``jit``, C that agrees, clear refusals."""

import ctypes
import json
import re
import shutil
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.samples import WIDE, all_samples
from weft import export, lax, random
from weft.backends.llvm.calls.dispatch import supported
from weft.experimental.ode import odeint

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
NODE = shutil.which("node")
native = pytest.mark.skipif(not supported(), reason="there is no native code on this system")
compiled = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")
MACHINES = {"aarch64": 183, "x86-64": 62, "x86-64-v3": 62, "x86-64-v4": 62}


def host(x):
    """An array's memory."""
    keys = weft.dtypes.issubdtype(x.dtype, weft.dtypes.prng_key)
    return np.ascontiguousarray(random.key_data(x) if keys else x)


def called(library, name, args, like):
    """The results of a function of a library."""
    ins = [host(x if hasattr(x, "dtype") else jnp.asarray(x)) for x in args]
    outs = [np.full(x.shape, 77).astype(x.dtype) for x in map(host, like)]
    getattr(library, name)(*[ctypes.c_void_p(x.ctypes.data) for x in ins + outs])
    return outs


def build(folder, names, library="all.so"):
    sources = [str(folder / f"{name}.c") for name in names]
    command = [COMPILER, "-std=c99", "-O1", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run([*command, "-o", str(folder / library), *sources, "-lm"], check=True)
    return ctypes.CDLL(str(folder / library))


def loops(x, w):
    def body(carry, row):
        return jnp.sin(carry) @ w, carry.sum() + row

    last, sums = lax.scan(body, jnp.tanh(x @ w), jnp.arange(5.0))
    return last, sums, weft.nn.softmax(last)


def chosen(n, x):
    grown = lax.while_loop(lambda c: jnp.abs(c).max() < 50, lambda c: c * 2 + 1, x)
    return lax.switch(n, [jnp.sin, jnp.cos, lambda x: x * x], x), grown


def several(x, n):
    top, where = lax.top_k(x, 3)
    return {
        "sorted": jnp.sort(x, axis=0),
        "top": (top, where),
        "given": x,
        "fixed": jnp.arange(4),
        "again": x,
        "drawn": random.normal(random.key(n), (5,)).astype(jnp.bfloat16),
        "sums": jnp.zeros(4).at[n % 4].add(x.sum(1)[0]),
    }


def steps(params, x, lr):
    def loss(p):
        return (jnp.tanh(x @ p["w"] + p["b"]) ** 2).mean()

    value, grads = weft.value_and_grad(loss)(params)
    return value, weft.tree.map(lambda p, g: p - lr * g, params, grads)


X = np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)
PROGRAMS = [
    (loops, (X, X / 3)),
    (chosen, (1, X)),
    (chosen, (-7, X)),
    (chosen, (9, X)),
    (several, (X, 3)),
    (steps, ({"w": X, "b": X[0]}, X, 0.1)),
    (weft.vmap(lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: abs(c) + 1.5, x)), (X,)),
    (weft.vmap(lambda n, x: lax.cond(n[0] > 0, jnp.sin, lambda x: x @ X, x)), (X, X)),
    (lambda x: (), (X,)),
    (lambda: jnp.arange(3) * 2, ()),
    (lambda x: (x[:0], x.astype(jnp.complex64) * 1j), (X,)),
    (lambda x: odeint(lambda y, t: jnp.sin(y) * t, x[0], jnp.linspace(0.0, 0.2, 4)), (X,)),
]


@native
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_a_library_gives_the_bits_of_jit(number, tmp_path):
    fun, args = PROGRAMS[number]
    fun = weft.jit(fun)
    made = export.to_c(fun, args, tmp_path, name="f")
    like = weft.tree.leaves(fun(*args))
    library = ctypes.CDLL(str(made.shared))
    for found, expected in zip(
        called(library, "f", weft.tree.leaves(args), like), like, strict=True
    ):
        assert found.tobytes() == host(expected).tobytes()


@compiled
def test_c_source_agrees_with_jit(tmp_path):
    for number, (fun, args) in enumerate(PROGRAMS):
        export.to_c(weft.jit(fun), args, tmp_path, name=f"f{number}", target="c")
    library = build(tmp_path, [f"f{number}" for number in range(len(PROGRAMS))])
    for number, (fun, args) in enumerate(PROGRAMS):
        like = weft.tree.leaves(weft.jit(fun)(*args))
        outs = called(library, f"f{number}", weft.tree.leaves(args), like)
        for found, expected in zip(outs, map(host, like), strict=True):
            np.testing.assert_allclose(
                found.astype(complex), expected.astype(complex), rtol=2e-5, atol=1e-5
            )


# Compilers of other processors and what runs their programs; checks of memory and arithmetic.
MACHINES_OF_C = {
    "checked": ("gcc", ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], []),
    "fast": ("gcc", ["-O3"], []),
    "aarch64": ("aarch64-linux-gnu-gcc", ["-static"], ["qemu-aarch64"]),
    "arm": ("arm-linux-gnueabihf-gcc", ["-static"], ["qemu-arm"]),
}


def main_text(number, args, like):
    """A program that calls a function with these arguments and prints the bytes of results."""
    lines = [f'#include "f{number}.h"', "#include <stdio.h>"]
    for i, x in enumerate(args):
        numbers = ",".join(map(str, x.tobytes())) or "0"
        lines.append(f"static union {{ unsigned char b[{max(x.nbytes, 1)}]; double d; }} a{i} = {{")
        lines.append(f"    {{ {numbers} }}}};")
    for i, x in enumerate(like):
        lines.append(f"static union {{ unsigned char b[{max(x.nbytes, 1)}]; double d; }} r{i};")
    given = [f"(void *)a{i}.b" for i in range(len(args))]
    given += [f"(void *)r{i}.b" for i in range(len(like))]
    lines.append(f"int main(void) {{\n    f{number}({', '.join(given)});")
    lines += [f"    fwrite(r{i}.b, 1, {x.nbytes}, stdout);" for i, x in enumerate(like)]
    return "\n".join([*lines, "    return 0;\n}\n"])


@pytest.mark.parametrize("machine", MACHINES_OF_C)
def test_c_source_runs_anywhere_with_the_same_bits(machine, tmp_path):
    """Strict C99 without vectors: sums are in one order, whatever compiles it."""
    compiler, options, run = MACHINES_OF_C[machine]
    missing = [word for word in (compiler, *run, "gcc") if not shutil.which(word)]
    if missing:
        pytest.skip(f"there is no {missing[0]} on this machine")
    strict = "-std=c99 -pedantic -Wall -Wextra -Werror -O2".split()
    for number in (0, 1, 4, 5, 7, 10):
        fun, args = PROGRAMS[number]
        fun = weft.jit(fun)
        export.to_c(fun, args, tmp_path, name=f"f{number}", target="c")
        ins = [host(jnp.asarray(x)) for x in weft.tree.leaves(args)]
        like = [host(x) for x in weft.tree.leaves(fun(*args))]
        text = main_text(number, ins, like)
        (tmp_path / "main.c").write_text(text)
        told = []
        for cc, extra, runner in ((compiler, options, run), ("gcc", ["-O0"], [])):
            files = ["-o", "main", "main.c", f"f{number}.c", "-lm"]
            subprocess.run([cc, *strict, *extra, *files], cwd=tmp_path, check=True)
            command = [*runner, "./main"]
            told.append(
                subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout
            )
        assert told[0] == told[1]
        for found, expected in zip(np.split(np.frombuffer(told[0], np.uint8), np.cumsum(
            [x.nbytes for x in like])[:-1]), like, strict=True):  # fmt: skip
            found = np.frombuffer(found.tobytes(), expected.dtype).reshape(expected.shape)
            np.testing.assert_allclose(
                found.astype(complex), expected.astype(complex), rtol=2e-5, atol=1e-5
            )


# Samples that need Python or a layout of their own are refused.
SAMPLES = [s for s in all_samples() if s.axis is None][3::28]


@native
def test_samples_of_primitives(tmp_path):
    made, refused = [], 0
    for number, sample in enumerate(SAMPLES):
        for dtype in (sample.dtypes[0], sample.dtypes[-1]):
            with weft.enable_x64(dtype in WIDE):
                args = sample.operands(dtype, np.random.default_rng(1))
                fun, name = weft.jit(sample.function(dtype)), f"s{number}_{dtype}"
                try:
                    library = export.to_c(fun, args, tmp_path, name=name)
                    if COMPILER:
                        export.to_c(fun, args, tmp_path / "c", name=name, target="c")
                except ValueError as error:
                    assert "needs" in str(error) or "exported" in str(error)
                    refused += 1
                    continue
                if "BLAS" not in library.header.read_text():
                    made.append((sample, name, library, args, weft.tree.leaves(fun(*args))))
    assert len(made) > 40 and refused < 12
    plain = build(tmp_path / "c", dict.fromkeys(m[1] for m in made)) if COMPILER else None
    for sample, name, library, args, like in made:
        outs = called(ctypes.CDLL(str(library.shared)), name, args, like)
        for found, expected in zip(outs, map(host, like), strict=True):
            assert found.tobytes() == expected.tobytes(), sample
        for found, expected in zip(
            called(plain, name, args, like) if plain else (), map(host, like), strict=False
        ):
            close = 2e-2 if found.dtype.itemsize < 4 else 1e-4
            np.testing.assert_allclose(
                found.astype(complex), expected.astype(complex), rtol=close, atol=1e-5
            )


@native
@compiled
@pytest.mark.parametrize("target", ["native", "c"])
def test_c_trains_a_classifier_of_digits(target, tmp_path):
    rng = np.random.default_rng(0)
    strokes = rng.random((10, 64)) > 0.6
    labels = rng.integers(0, 10, 256).astype(np.int32)
    images = strokes[labels] * rng.uniform(0.6, 1, (256, 64)) + rng.normal(size=(256, 64)) * 0.1
    images = images.astype(np.float32)
    params = {
        "b1": np.zeros(32, np.float32),
        "b2": np.zeros(10, np.float32),
        "w1": rng.normal(size=(64, 32)).astype(np.float32) / 8,
        "w2": rng.normal(size=(32, 10)).astype(np.float32) / 6,
    }

    def train(params, images, labels, rate):
        def loss(p):
            hidden = weft.nn.relu(images @ p["w1"] + p["b1"])
            scores = weft.nn.log_softmax(hidden @ p["w2"] + p["b2"])
            return -jnp.take_along_axis(scores, labels[:, None], 1).mean()

        value, grads = weft.value_and_grad(loss)(params)
        return value, weft.tree.map(lambda p, g: p - rate * g, params, grads)

    step = weft.jit(train, donate_argnums=0)
    batch = (images[:32], labels[:32], np.float32(0.5))
    made = export.to_c(step, (params, *batch), tmp_path, target=target)
    for name, value in (("images", images), ("labels", labels)):
        (tmp_path / name).write_bytes(value.tobytes())
    (tmp_path / "params").write_bytes(b"".join(params[k].tobytes() for k in sorted(params)))
    main = Path(__file__).with_name("digits.c")
    assert len(main.read_text().splitlines()) <= 60
    code = made.header.with_suffix(".o" if target == "native" else ".c")
    program = str(tmp_path / "digits")
    options = ["-std=c99", "-O2", f"-I{tmp_path}", "-o", program, str(main), str(code), "-lm"]
    subprocess.run([COMPILER, *options], check=True)
    names = [str(tmp_path / name) for name in ("images", "labels", "params")]
    told = subprocess.run([program, *names], check=True, capture_output=True, text=True).stdout

    params, value = weft.tree.map(jnp.asarray, params), None
    for _ in range(10):
        for i in range(0, 256, 32):
            value, params = step(params, images[i : i + 32], labels[i : i + 32], np.float32(0.5))
    trained = np.frombuffer((tmp_path / "params").read_bytes(), np.float32)
    expected = np.concatenate([np.asarray(params[k]).ravel() for k in sorted(params)])
    assert float(told.split()[-1]) < 0.1 and float(value) < 0.1
    if target == "native":
        assert trained.tobytes() == expected.tobytes()
    else:
        np.testing.assert_allclose(trained, expected, rtol=1e-3, atol=1e-4)


@native
def test_the_callers_memory_and_threads(tmp_path):
    def f(x):
        return jnp.exp(jnp.sin(x)).sum(1), x @ x.T

    x = np.random.default_rng(1).normal(size=(700, 700)).astype(np.float32)
    fun = weft.jit(f)
    made = export.to_c(fun, (x,), tmp_path, name="f")
    library, like = ctypes.CDLL(str(made.shared)), fun(x)
    arena = np.zeros(made.arena_bytes + 64, np.uint8)
    place = -(-arena.ctypes.data // 64) * 64
    outs = [np.zeros(a.shape, a.dtype) for a in like]
    given = [ctypes.c_void_p(p) for p in (place, x.ctypes.data, *[o.ctypes.data for o in outs])]
    library.f_in(*given)
    for found, expected in zip(outs, like, strict=True):
        assert found.tobytes() == np.asarray(expected).tobytes()

    task = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    kinds = (ctypes.c_void_p, *[ctypes.c_int64] * 3)
    ranges = []

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, *kinds)
    def backwards(function, buffers, start, stop, chunk):
        for low in reversed(range(start, stop, chunk)):
            ranges.append((low, min(low + chunk, stop)))
            task(function)(buffers, *ranges[-1])

    library.f_set_parallel(backwards)
    outs = called(library, "f", [x], like)
    for found, expected in zip(outs, like, strict=True):
        assert found.tobytes() == np.asarray(expected).tobytes()
    assert len(ranges) > 1
    library.f_set_parallel(None)


@native
@pytest.mark.parametrize("target", MACHINES)
def test_libraries_for_other_machines(target, tmp_path):
    made = export.to_c(weft.jit(loops), (X, X), tmp_path, target=target)
    for path in made.files:
        data = path.read_bytes()
        if path.suffix in (".so", ".o"):
            assert data[:4] == b"\x7fELF"
            assert struct.unpack_from("<H", data, 18)[0] == MACHINES[target]
    assert {path.name for path in made.files} == {"loops.h", "loops.o", "libloops.so", "loops.ll"}


@native
def test_other_machines_plan_with_the_same_knobs(tmp_path):
    """Batched loops are traced while a program is planned."""
    halved = weft.vmap(lambda x: lax.while_loop(lambda x: x.sum() > 1, lambda x: x * 0.5, x))
    with weft.enable_x64(True):
        args = (X.astype(np.float64),)
        export.to_c(weft.jit(halved), args, tmp_path, name="f", target="wasm32")
    assert "float64" in (tmp_path / "f.js").read_text()


@native
@pytest.mark.skipif(not NODE, reason="there is no Node.js to run WebAssembly")
@pytest.mark.parametrize("number", [0, 2, 4, 5])
def test_webassembly(number, tmp_path):
    fun, args = PROGRAMS[number]
    fun = weft.jit(fun)
    made = export.to_c(fun, args, tmp_path, name="f", target="wasm32")
    assert made.header is None and made.shared is None
    given = [host(jnp.asarray(x)).ravel().tolist() for x in weft.tree.leaves(args)]
    (tmp_path / "args.json").write_text(json.dumps(given))
    (tmp_path / "main.mjs").write_text(
        "import { load } from './f.js'; import fs from 'fs';\n"
        "const f = await load(fs.readFileSync('f.wasm'));\n"
        "const results = f(...JSON.parse(fs.readFileSync('args.json')));\n"
        "console.log(JSON.stringify(results.map((r) => Array.from(r))));\n"
    )
    command = [NODE, "main.mjs"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    for found, expected in zip(
        json.loads(done.stdout), map(host, weft.tree.leaves(fun(*args))), strict=True
    ):
        if expected.dtype == jnp.bfloat16:
            expected = expected.view(np.uint16)
        np.testing.assert_allclose(found, expected.ravel(), rtol=1e-4, atol=1e-5)


def filtered(x, p, measured):
    """A Kalman filter of positions and speeds."""
    move, see = jnp.eye(4) + 0.1 * jnp.eye(4, k=2), jnp.eye(2, 4)

    def step(carry, z):
        x, p = carry
        x, p = move @ x, move @ p @ move.T + 0.01 * jnp.eye(4)
        gain = jnp.linalg.solve(see @ p @ see.T + 0.1 * jnp.eye(2), see @ p).T
        x, p = x + gain @ (z - see @ x), p - gain @ see @ p
        return (x, p), x

    return lax.scan(step, (x, p), measured)


def triangles(a, b):
    """All kinds of triangular solves."""
    found = []
    for left in (True, False):
        for lower in (True, False):
            for turned in (True, False):
                for unit in (True, False):
                    matrix = a / 9 if unit else a
                    found.append(lax.linalg.triangular_solve(
                        matrix, b, left_side=left, lower=lower, transpose_a=turned,
                        unit_diagonal=unit,
                    ))  # fmt: skip
    return found


S = X @ X.T + 6 * np.eye(6, dtype=np.float32)
STACK = np.stack([S, S + 1, np.diag(np.arange(1.0, 7).astype(np.float32))])
SOLVERS = {
    "solve": (lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.inv(a)), (X, X[:, :2])),
    "determinants": (lambda a: (jnp.linalg.det(a), jnp.linalg.slogdet(a)), (X,)),
    "lu": (lambda a: lax.linalg.lu(a), (X,)),
    "lu, wide": (lambda a: lax.linalg.lu(a), (X[:4],)),
    "lu, high": (lambda a: lax.linalg.lu(a), (X[:, :3],)),
    "lu, zeros": (lambda a: lax.linalg.lu(a), (np.zeros((3, 3), np.float32),)),
    "cholesky": (jnp.linalg.cholesky, (STACK,)),
    "not positive": (jnp.linalg.cholesky, (np.stack([S, -S]),)),
    "triangles": (triangles, (S, X)),
    "stacks": (weft.vmap(jnp.linalg.solve), (STACK, np.stack([X, X, X]))),
    "gradient": (
        weft.grad(lambda a: (jnp.linalg.solve(a, X) ** 2).sum() + jnp.linalg.slogdet(a)[1]),
        (S,),
    ),
    "one": (lambda a, b: jnp.linalg.solve(a, b), (S[:1, :1], X[:1, :1])),
    "filter": (filtered, (X[0, :4], S[:4, :4], X[:, :2])),
}


@compiled
def test_c_source_solves_without_lapack(tmp_path):
    for number, (fun, args) in enumerate(SOLVERS.values()):
        export.to_c(weft.jit(fun), args, tmp_path, name=f"f{number}", target="c")
    library = build(tmp_path, [f"f{number}" for number in range(len(SOLVERS))])
    for number, (name, (fun, args)) in enumerate(SOLVERS.items()):
        like = weft.tree.leaves(weft.jit(fun)(*args))
        found = called(library, f"f{number}", weft.tree.leaves(args), like)
        for x, expected in zip(found, like, strict=True):
            np.testing.assert_allclose(x, expected, rtol=2e-4, atol=2e-5, err_msg=name)


HALVES = np.array([0, -0.0, 1, 1 / 3, 65504, 65519, 65520, -70000, 6e-8, 3e-8, 2.9e-8, 1e-4, 2049,
                   2051, -6.1e-5, np.inf], np.float32)  # fmt: skip


def drawn(key, x, wide):
    bits = lax.bitcast_convert_type(x.astype(jnp.float16), jnp.uint16)
    again = lax.bitcast_convert_type(wide, jnp.float16).astype(jnp.float32)
    return random.uniform(key, (5,)), random.split(key), bits, jnp.where(abs(again) < 9e9, again, 0)


@native
@pytest.mark.skipif(not NODE, reason="there is no Node.js to run WebAssembly")
def test_webassembly_has_float16_and_keys(tmp_path):
    """Each float16 is read, float32 is rounded to it as by NumPy, and a key is its numbers."""
    args = (random.key(7), HALVES, np.arange(1 << 16, dtype=np.uint16))
    export.to_c(weft.jit(drawn), args, tmp_path, name="f", target="wasm32")
    (tmp_path / "main.mjs").write_text(
        "import { load } from './f.js'; import fs from 'fs';\n"
        "const f = await load(fs.readFileSync('f.wasm'));\n"
        "const [key, x] = [[0, 7], new Float32Array(JSON.parse(fs.readFileSync('x.json')))];\n"
        "const results = f(key, x, Uint16Array.from({ length: 65536 }, (_, i) => i));\n"
        "console.log(JSON.stringify(results.map((r) => Array.from(r))));\n"
    )
    (tmp_path / "x.json").write_text(json.dumps([min(float(x), 1e39) for x in HALVES]))
    done = subprocess.run(
        [NODE, "main.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    uniform, keys, bits, again = json.loads(done.stdout)
    np.testing.assert_allclose(uniform, random.uniform(random.key(7), (5,)), rtol=1e-6)
    assert keys == random.key_data(random.split(random.key(7))).ravel().tolist()
    with np.errstate(over="ignore"):
        assert bits == HALVES.astype(np.float16).view(np.uint16).tolist()
    want = args[2].view(np.float16).astype(np.float32)
    assert again == np.where(abs(want) < 9e9, want, 0).tolist()


class Pair(NamedTuple):
    low: object
    high: object


@native
@pytest.mark.parametrize("target", ["native", "aarch64", "wasm32", "c"])
def test_classes_of_the_user_need_no_registration(target, tmp_path):
    fun = weft.jit(lambda pair: Pair(pair.high, pair.low))
    made = export.to_c(fun, (Pair(X, X),), tmp_path, name="turned", target=target)
    if made.header is not None:
        assert "const float *pair_low, /* pair.low: float32[6,6] */" in made.header.read_text()


TAKEN = ["sin", "sinf", "y0", "malloc", "time", "f64", "u8", "to_bf16", "memory", "constant0"]


@pytest.mark.parametrize("name", TAKEN)
def test_names_that_are_taken(name, tmp_path):
    """A library whose function is called sin would change what sin is for all of the program."""
    with pytest.raises(ValueError, match=f"name of something else in C.*, such as '{name}_'"):
        export.to_c(weft.jit(lambda x: x), (1.0,), tmp_path, name=name, target="c")

    def fun(x):
        return jnp.sin(x) + jnp.arange(3.0)

    fun.__name__ = fun.__qualname__ = name
    made = export.to_c(weft.jit(fun), (X[0, :3],), tmp_path, target="c")
    assert made.name == f"{name}_"
    if COMPILER:
        build(tmp_path, [made.name])


@compiled
def test_kernels_make_way_for_the_name_of_the_function(tmp_path):
    fun = weft.jit(lambda x: jnp.sin(x))
    (kernel,) = re.findall(r"static void (\w+)\(", export_text(fun, tmp_path, "f")) or [""]
    text = export_text(fun, tmp_path, kernel)
    assert f"static void {kernel}_(" in text
    build(tmp_path, [kernel])


def export_text(fun, folder, name):
    export.to_c(fun, (X,), folder, name=name, target="c")
    return (folder / f"{name}.c").read_text()


def test_what_c_cannot_hold_is_refused(tmp_path):
    def calls(x):
        return weft.pure_callback(lambda x: x, weft.ShapeDtypeStruct((), jnp.float32), x)

    for target in ("native", "c", "wasm32", "aarch64"):
        with pytest.raises(
            ValueError, match=r"pure_callback at .*test_c_library.py:.* needs Python"
        ):
            export.to_c(weft.jit(calls), (1.0,), tmp_path, target=target)

    def prints(x):
        return lax.scan(lambda c, _: (c + 1, weft.debug.print("{}", c)), x, length=2)

    for target in ("native", "c", "wasm32", "aarch64"):
        with pytest.raises(ValueError, match=r"debug_print at .*test_c_library.py:.* needs Python"):
            export.to_c(weft.jit(prints), (1.0,), tmp_path, target=target)
    with pytest.raises(TypeError, match=r"write to_c\(jit\(f\), ...\)"):
        export.to_c(calls, (1.0,), tmp_path)
    with pytest.raises(TypeError, match="takes a tuple of arguments"):
        export.to_c(weft.jit(jnp.sin), X, tmp_path)
    with pytest.raises(ValueError, match=r"targets are 'native', .* got 'riscv'"):
        export.to_c(weft.jit(jnp.sin), (X,), tmp_path, target="riscv")
    for name in ("while", "2f", "naïve", "a b"):
        with pytest.raises(ValueError, match="can't be the name of a function in C"):
            export.to_c(weft.jit(jnp.sin), (X,), tmp_path, name=name)
    size = export.symbolic_shape("n")
    with pytest.raises(ValueError, match="symbolic dimensions"):
        export.to_c(weft.jit(jnp.sin), (weft.ShapeDtypeStruct(size, jnp.float32),), tmp_path)


def test_names_of_arguments(tmp_path):
    def f(params, *, scale, restrict):
        return params["a b"] * scale + params["a_b"] * restrict

    params = {"a b": X, "a_b": X}
    made = export.to_c(weft.jit(f), (params,), tmp_path, kwargs={"scale": 2.0, "restrict": 1},
                       target="c")  # fmt: skip
    text = made.header.read_text()
    assert "const float *params_a_b, /* params['a b']: float32[6,6] */" in text
    assert "const float *params_a_b_2, /* params['a_b']: float32[6,6] */" in text
    assert "const int32_t *x_restrict, /* restrict: int32[] */" in text
    assert f"#define F_ARENA_BYTES {made.arena_bytes}" in text


@native
def test_what_elements_are_in_memory(tmp_path):
    """Types that C and JavaScript have none for are explained where a reader looks."""

    def fun(k, h, c, i):
        return random.split(k), h * 2, c * c, i.astype(jnp.int4)

    args = (random.key(0), np.ones(3, np.float16), np.ones(2, np.complex64), np.ones(2, np.int8))
    export.to_c(weft.jit(fun), args, tmp_path, name="f", target="c")
    export.to_c(weft.jit(fun), args, tmp_path, name="f", target="wasm32")
    header, loader = ((tmp_path / f"f.{kind}").read_text() for kind in ("h", "js"))
    for told in (
        "key<fry>[2], the uint32 numbers of random.key_data",
        "float16[3], the bits of each number",
        "complex64[2], pairs of a real and an imaginary part",
    ):
        assert told in header and told in loader
    assert "int8_t *out_3 /* out[3]: int4[2] */" in header and "uint8_t *out_3" not in header
    assert "result 3: int4[2]; Int8Array" in loader
    if COMPILER:
        like = weft.jit(fun)(*args)
        found = called(build(tmp_path, ["f"]), "f", args, like)
        assert [x.tobytes() for x in found] == [host(x).tobytes() for x in like]
