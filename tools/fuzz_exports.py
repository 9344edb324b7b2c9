"""Exports damaged in many ways, read and called with every buffer between guard pages.

    python tools/fuzz_exports.py --samples --reads 1000000 --calls 100000 --seed 0

A worker makes each mutant from its number: bytes flipped blindly, or a shape, a dtype, a parameter,
an operand forged, half of these with all types after it derived anew so that only rules can refuse
it. Arguments, constants, results and temporaries end at a page that may not be touched, so a read
or a write past them ends the worker, which is counted and started again behind that mutant. Reading
may raise ``MalformedExportError`` and nothing else, and may open no file for writing and start no
process. A call may raise that, ValueError for its arguments, or want of memory, and is stopped by a
signal after some seconds; a worker that does not stop then is counted as hung. The exit status says
whether all went well.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import itertools
import json
import mmap
import os
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import weft
import weft.numpy as jnp
from weft import export, lax
from weft.backends.cpu.calls import slowly
from weft.backends.llvm.native import loader
from weft.core.dims.dim import max_dim, substitute
from weft.core.registry import lookup
from weft.export import reading
from weft.export.encoding import MARK

PAGE = mmap.PAGESIZE
HEAD = len(MARK) + 8
ADDRESS_SPACE = 6 << 30
LARGEST_ARGUMENT = 1 << 22
ALLOWED = ("MalformedExportError", "MemoryError", "ValueError")  # of calls


# --- memory between guard pages -------------------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
_guarded: dict[int, tuple[int, int]] = {}  # the mapping that a piece lies in


def allocate(alignment: int, size: int) -> int:
    """Memory that ends right before a page without access, and begins behind one; 0 if none."""
    size = -(-max(size, 1) // alignment) * alignment
    pages = -(-size // PAGE) * PAGE
    whole = pages + 2 * PAGE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _libc.mmap(None, whole, 0, flags, -1, 0)
    if base is None or base == ctypes.c_void_p(-1).value:
        return 0
    if _libc.mprotect(base + PAGE, pages, mmap.PROT_READ | mmap.PROT_WRITE):
        _libc.munmap(base, whole)
        return 0
    place = base + PAGE + pages - size
    _guarded[place] = (base, whole)
    return place


def free(place: int | None) -> None:
    """Unmap a piece, so that a later use ends the process too; foreign pieces go to the heap."""
    if place is None:
        return
    found = _guarded.pop(place, None)
    if found is None:
        _libc.free(ctypes.c_void_p(place))
    else:
        _libc.munmap(*found)


class _Piece:
    """Owns guarded memory for an array of NumPy's."""

    def __init__(self, size: int, alignment: int) -> None:
        self.place = allocate(alignment, size)
        if not self.place:
            raise MemoryError
        self.__array_interface__ = {
            "data": (self.place, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self) -> None:
        if free is not None:
            free(self.place)


def guarded(shape: tuple[int, ...], dtype: np.dtype, alignment: int = 64) -> np.ndarray:
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    return np.asarray(_Piece(size, alignment)).view(dtype).reshape(shape)


def guarded_copy(value: np.ndarray) -> np.ndarray:
    """The same values, ending at a guard page to the byte."""
    out = guarded(value.shape, value.dtype, max(1, value.dtype.alignment))
    out[...] = value
    return out


_callbacks = {
    "aligned_alloc": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)(allocate),
    "free": ctypes.CFUNCTYPE(None, ctypes.c_void_p)(free),
}


def guard_everything() -> None:
    """Make weft take all memory of arrays from here."""
    external, array = loader.external, reading._array

    def address(name: str) -> int:
        own = _callbacks.get(name)
        return external(name) if own is None else ctypes.cast(own, ctypes.c_void_p).value

    loader.external = address
    slowly.empty = guarded
    reading._array = lambda *given: guarded_copy(array(*given))


# --- what is mutated ------------------------------------------------------------------------------


def corpus() -> list[bytes]:
    """Small programs that use most kinds of operations."""
    x, m = jnp.arange(12.0), jnp.arange(24.0).reshape(4, 6)
    i, k = jnp.array([3, 1, 7]), jnp.int32(5)
    picture = jnp.ones((2, 3, 8, 8))
    table = jnp.arange(40.0)

    def loop(v, n):
        step = lambda c: (c[0] + 1, jnp.sin(c[1]) * table[:12])
        return lax.while_loop(lambda c: c[0] < n, step, (jnp.int32(0), v))

    def rows(v, w):
        body = lambda c, r: (c * 0.5 + r.sum(), lax.cond(c > 1, jnp.sin, jnp.cos, r))
        return lax.scan(body, v[0], w)

    def windows(p):
        pool = lax.reduce_window(p, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        return jnp.sum(pool * 2)

    functions = [
        (lambda v: v + table[:12], (x,)),
        (lambda v: jnp.concatenate([v, table])[::2].reshape(2, 13), (x,)),
        (loop, (x, jnp.int32(4))),
        (rows, (x, m)),
        (lambda n, v: lax.fori_loop(0, n, lambda j, s: s.at[j].set(s[j - 1] + 1), v), (k, x)),
        (lambda n, a: lax.switch(n, [jnp.sin, jnp.cos, lambda t: t + table[0]], a), (k, x)),
        (lambda a, j: (a[j], a.at[j].add(1.0), a.at[j, 2].set(3.0)), (m, i)),
        (lambda a, j: lax.dynamic_slice(a, (j, j), (2, 3)), (m, k)),
        (lambda a, j: lax.dynamic_update_slice(a, a[:2, :2] * 2, (j, j)), (m, k)),
        (lambda a, b: jax_like_layer(a, b), (m, jnp.ones((6, 5)))),
        (lambda p: lax.conv(p, jnp.ones((4, 3, 3, 3)), (1, 1), "SAME"), (picture,)),
        (windows, (picture,)),
        (weft.grad(windows), (picture,)),
        (lambda a: (jnp.sort(a, 1), jnp.argsort(a[0]), lax.top_k(a, 2)), (m,)),
        (lambda a: (jnp.cumsum(a, 1), lax.cummax(a, reverse=True), a.T @ a), (m,)),
        (lambda a: jnp.pad(a, ((1, 2), (0, 3)))[::-1, 1:7:2], (m,)),
        (lambda a: (jnp.argmax(a, 0), a.max(1), jnp.any(a > 2), a.astype(jnp.int8)), (m,)),
        (lambda a: jnp.fft.rfft(a), (m,)),
        (lambda a: jnp.linalg.cholesky(a @ a.T + jnp.eye(4)), (m,)),
        (lambda a: jnp.linalg.solve(a @ a.T + jnp.eye(4), a), (m,)),
        (lambda a: tuple(jnp.linalg.svd(a)), (m,)),
        (lambda key: weft.random.normal(key, (3, 5)), (weft.random.key(3),)),
        (lambda a: lax.reduce(a, 1.0, lambda p, q: p * q + 1, (0,)), (m,)),
        (lambda a: a.at[jnp.array([0, 2, 0])].apply(jnp.sin), (m,)),
        (lambda a, j: jnp.take_along_axis(a, j[:, None] % 6, 1), (m[:3], i)),
        (lambda a: jnp.einsum("ij,kj->ik", a, a).astype(jnp.bfloat16), (m,)),
        (lambda a: jnp.where(a > 3, a.astype(jnp.complex64) * 1j, 0), (m,)),
        (lambda a: (lax.population_count(a), a << 2, a % 3), (i,)),
        (weft.grad(lambda a: jnp.sum(lax.map(jnp.sin, a) ** 2)), (m,)),
        (weft.vmap(lambda a, j: a.at[j].multiply(2.0), (None, 0)), (x, i)),
    ]
    return [bytes(export.export(weft.jit(f))(*args).serialize()) for f, args in functions]


def jax_like_layer(a, b):
    return weft.nn.softmax(jnp.tanh(a @ b + 1.0), axis=-1)


def symbolic() -> list[bytes]:
    """Programs of symbolic shapes, some with constraints."""
    knowns = ("b >= 2", "b <= 40"), ("mod(b, 2) == 0",), ()
    functions = [
        (lambda v: v * 2 + v.shape[0], ["b"]),
        (lambda v: v.reshape(-1)[::2], ["b, h"]),
        (lambda v: jnp.concatenate([v[1:], v[:1]]) @ v.T, ["b, h"]),
        (lambda v, w: jnp.tanh(v @ w).sum(0) / v.shape[0], ["b, h", "h, 5"]),
        (lambda v: jnp.pad(v, ((1, 2), (0, 0)))[2:-1], ["b, h"]),
        (lambda v: (jnp.sort(v, 1), jnp.argmax(v, 0), jnp.cumsum(v, 0)), ["b, h"]),
        (lambda v: v[jnp.arange(v.shape[0]) // 2].at[0].set(1.0), ["b, 3"]),
        (lambda v: lax.scan(lambda c, x: (c * 0.5 + x.sum(), x * c), 0.0, v), ["b, h"]),
        (lambda v: lax.fori_loop(0, v.shape[0], lambda i, c: c + v[i], jnp.zeros(4)), ["b, 4"]),
        (lambda v, w: v[: w.shape[0]] + w, ["b + h", "b"]),
        (lambda v: lax.dynamic_slice(v, (1,), (2,)), ["b + 2"]),
        (lambda v: weft.nn.softmax(v.reshape(2, -1), -1), ["2*b, h"]),
        (weft.grad(lambda v: (jnp.sin(v) ** 2).mean()), ["b, h"]),
        (lambda v: jnp.where(jnp.tri(v.shape[0]) > 0, v, 0).max(1), ["b, b"]),
        (lambda v: jnp.full((v.shape[0] * v.shape[1],), 3) + jnp.ones(v.size), ["b, h"]),
        (lambda v: lax.reduce_window(v, 0.0, lax.add, (2, 1), (1, 1), "VALID"), ["b + 1, h"]),
        (lambda v: v[: max_dim(v.shape[0] - 3, 1)] * (v.shape[0] // 2), ["b"]),
        (lambda v: jnp.fft.rfft(v), ["b, 8"]),
    ]
    found = []
    for (function, shapes), known in zip(functions, itertools.cycle(knowns)):
        scope = export.SymbolicScope(known)
        specs = [
            weft.ShapeDtypeStruct(export.symbolic_shape(text, scope=scope), np.float32)
            for text in shapes
        ]
        found.append(bytes(export.export(weft.jit(function))(*specs).serialize()))
    return found


def samples() -> list[bytes]:
    """One program for every primitive that has a sample in the tests."""
    from tests.samples import all_samples

    rng, found = np.random.default_rng(0), {}
    for sample in all_samples():
        if sample.prim in found or sample.axis is not None:
            continue
        args = sample.operands(sample.dtypes[0], rng)
        try:
            made = export.export(weft.jit(sample.function(sample.dtypes[0])))(*args)
            found[sample.prim] = bytes(made.serialize())
        except ValueError:  # it acts on the outside
            continue
    return list(found.values())


NUMBERS = (0, 1, 2, 3, 7, -1, -2, 64, 100, 4096, 1 << 31, (1 << 31) - 1, (1 << 32) + 1, 1 << 62)


class Mutants:
    """Mutants of a corpus by number: the same number gives the same bytes."""

    def __init__(self, blobs: list[bytes], seed: int) -> None:
        self.blobs = blobs
        self.seed = seed
        self.texts = []
        self.words: dict[str, list[str]] = collections.defaultdict(list)
        for blob in blobs:
            (size,) = struct.unpack("<Q", blob[len(MARK) : HEAD])
            text = blob[HEAD : HEAD + size]
            self.texts.append((text, blob[HEAD + size :]))
            for where, word in _strings(json.loads(text)):
                if word not in self.words[where]:
                    self.words[where].append(word)

    def make(self, number: int) -> bytes:
        rng = random.Random(f"{self.seed}:{number}")
        which = rng.randrange(len(self.blobs))
        if rng.random() < 0.3:
            return self._blind(rng, bytearray(self.blobs[which]))
        text, raw = self.texts[which]
        held = json.loads(text)
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            self._forge(rng, held)
        if rng.random() < 0.5:
            try:
                retype(held, raw)
            except Exception:  # it is as it is then
                pass
        if rng.random() < 0.1:
            raw += bytes(rng.randrange(1, 200))
        text = json.dumps(held).encode()
        return MARK + struct.pack("<Q", len(text)) + text + raw

    @staticmethod
    def _blind(rng: random.Random, data: bytearray) -> bytes:
        for _ in range(rng.choice((1, 1, 2, 4))):
            at = rng.randrange(len(data))
            kind = rng.randrange(4)
            if kind == 0:
                data[at] ^= 1 << rng.randrange(8)
            elif kind == 1:
                data[at] = rng.choice(b"0123456789,[]{}-.e")
            elif kind == 2:
                del data[at : at + rng.randrange(1, 5)]
            else:
                data[at:at] = bytes(rng.choices(b"0123456789,[]", k=rng.randrange(1, 5)))
        return bytes(data)

    def _forge(self, rng: random.Random, held: dict) -> None:
        leaves = list(_leaves(held))
        holder, key, where = rng.choice(leaves)
        value = holder[key]
        if type(value) is bool:
            holder[key] = not value
        elif type(value) is int:
            near = value + rng.choice((-2, -1, 1, 2))
            holder[key] = rng.choice((near, near, value * 2, rng.choice(NUMBERS)))
        elif type(value) is float:
            holder[key] = rng.choice((0.0, -1.0, 1e38, float("nan"), 3))
        elif type(value) is str:
            holder[key] = rng.choice(self.words[where] or [value])
        elif type(value) is list and value:
            kind, at = rng.randrange(3), rng.randrange(len(value))
            if kind == 0:
                del value[at]
            elif kind == 1:
                value.insert(at, value[rng.randrange(len(value))])
            else:
                other = rng.randrange(len(value))
                value[at], value[other] = value[other], value[at]
        else:
            holder[key] = rng.choice((None, 0, [], {"k": "tuple", "v": [1, 0]}))


def _leaves(held):
    """Every value of a text with the place that holds it, and what kind of name it is."""
    stack = [(held, "")]
    while stack:
        holder, where = stack.pop()
        items = holder.items() if type(holder) is dict else enumerate(holder)
        for key, value in items:
            if key == "k":
                continue
            kind = f"{holder.get('k', '')}.{key}" if type(holder) is dict else f"{where}.{key}"
            yield holder, key, kind
            if type(value) in (dict, list):
                stack.append((value, kind))


def _strings(held):
    for holder, key, where in _leaves(held):
        if type(holder[key]) is str:
            yield where, holder[key]


def retype(held: dict, raw: bytes) -> None:
    """Derive every type of a text anew, so that it agrees with itself."""
    arrays = reading._read_arrays(held["arrays"], memoryview(raw))
    reader = object.__new__(reading.Reader)
    reader.arrays = arrays
    reader.dims, reader.scope = {}, reading._scope(held.get("constraints", []))
    names = [name for name in dir(reading.Reader) if name.startswith("_read_")]
    reader._kinds = {name[6:]: getattr(reader, name) for name in names}
    stack = [held["value"]]
    while stack:
        value = stack.pop()
        if type(value) is dict and value.get("k") == "jaxpr":
            _retype(value, reader)
        elif type(value) is dict:
            stack.extend(value.values())
        elif type(value) is list:
            stack.extend(value)


def _retype(program: dict, reader) -> None:
    known = [reader._aval(a) for a in (*program["constants"], *program["inputs"])]
    for equation in program["equations"]:
        name, ins, outs, params = equation
        for _, value in params:
            if type(value) is dict and value.get("k") in ("jaxpr", "closed"):
                _retype(value.get("jaxpr", value), reader)
        avals = [known[x] if type(x) is int else reader._aval(x["aval"]) for x in ins]
        primitive = lookup(name)
        given = {key: reader.value(value) for key, value in params}
        result, _ = primitive.abstract_eval(*avals, **given)
        results = result if primitive.multiple_results else [result]
        for out, aval in zip(outs, results, strict=True):
            sizes = [n if type(n) is int else str(n) for n in aval.shape]
            out[0]["v"] = [sizes, aval.dtype.name, aval.weak_type]
            if not out[1]:
                known.append(aval)


# --- one worker -----------------------------------------------------------------------------------


class Stopped(Exception):
    """The time of a call is over."""


def _stop(signum, frame):
    raise Stopped


class Watch:
    """Counts what reading must not do."""

    FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "os.fork")

    def __init__(self) -> None:
        self.reading = False
        self.seen: list[str] = []
        sys.addaudithook(self.hook)

    def hook(self, event: str, args: tuple) -> None:
        if not self.reading:
            return
        writes = event == "open" and type(args[1]) is str and set(args[1]) & set("wax+")
        if event in self.FORBIDDEN or writes:
            self.seen.append(event)


def arguments(made: export.Exported, rng: random.Random) -> list | None:
    """Arrays for a call, each at a guard page; None where they would be too large."""
    found = []
    sizes: dict[str, int] = {}
    if made._unknowns is not None:
        sizes = {name: rng.choice((1, 2, 3, 4, 6, 9, 12)) for name in made._unknowns.names}
    for symbolic_aval in made.in_avals:
        aval = symbolic_aval.update(shape=tuple(substitute(n, sizes) for n in symbolic_aval.shape))
        if min(aval.shape, default=0) < 0:
            return None
        if weft.dtypes.issubdtype(aval.dtype, weft.dtypes.extended):
            key = weft.random.key(rng.randrange(100), impl=aval.dtype._impl.name)
            found.append(jnp.broadcast_to(key, aval.shape))
            continue
        if aval.size * aval.dtype.itemsize > LARGEST_ARGUMENT:
            return None
        values = np.arange(aval.size).reshape(aval.shape) % 7
        found.append(guarded_copy(values.astype(aval.dtype)))
    return found


def call(made: export.Exported, limit: float, number: int) -> str:
    args = arguments(made, random.Random(number))
    if args is None:
        return "not called: large arguments"
    leaves = weft.tree.unflatten(made.in_tree, args)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        out = made.call(*leaves[0], **leaves[1])
        for leaf in weft.tree.leaves(out):
            leaf.block_until_ready()
            if leaf.nbytes < LARGEST_ARGUMENT and not weft.dtypes.issubdtype(
                leaf.dtype, weft.dtypes.extended
            ):
                np.asarray(leaf).tobytes()
    except Stopped:
        return "stopped"
    except Exception as error:
        return f"raised {type(error).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "returned"


def work(options) -> None:
    """Try some mutants; the state of the work is in a file that outlives the process."""
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    held = json.loads(Path(options.corpus).read_text())
    mutants = Mutants(list(map(bytes.fromhex, held)), options.seed)
    guard_everything()
    signal.signal(signal.SIGALRM, _stop)
    for blob in mutants.blobs[:30]:  # what is sound is read and called
        outcome = call(export.deserialize(blob), 60.0, 0)
        if outcome != "returned":
            raise RuntimeError(f"an export that nobody changed: {outcome}")
    watch = Watch()
    with open(options.state, "r+b") as file:
        state = mmap.mmap(file.fileno(), 32)
    counts: collections.Counter = collections.Counter()
    faults = []
    done = calls = 0
    end = time.monotonic() + options.seconds
    for number in range(options.start, options.stop):
        if time.monotonic() > end:
            break
        state[:24] = struct.pack("<QQQ", number, 0, calls)
        data = mutants.make(number)
        state[8:16] = struct.pack("<Q", 1)
        watch.reading = True
        made = None
        try:
            made = export.deserialize(data)
            counts["read"] += 1
        except export.MalformedExportError:
            counts["refused"] += 1
        except Exception as error:
            faults.append((number, f"reading raised {type(error).__name__}: {error}"))
        watch.reading = False
        done += 1
        if watch.seen:
            faults.append((number, f"reading did {watch.seen}"))
            watch.seen = []
        share = options.calls * (number - options.start + 1) / (options.stop - options.start)
        if made is not None and options.before + calls < share:
            state[8:24] = struct.pack("<QQ", 2, calls)
            outcome = call(made, options.limit, number)
            calls += not outcome.startswith("not")
            counts[f"call {outcome}"] += 1
            if outcome.startswith("raised") and outcome.split()[1] not in ALLOWED:
                faults.append((number, f"calling {outcome}"))
    state[:24] = struct.pack("<QQQ", options.stop, 3, calls)
    print(json.dumps({"done": done, "calls": calls, "counts": counts, "faults": faults}))


# --- all workers ----------------------------------------------------------------------------------

PHASES = ("making", "reading", "calling", "end")


class Lane:
    """The mutants of one worker, started again behind each that ends it."""

    def __init__(self, options, start: int, stop: int, calls: int, folder: str) -> None:
        self.options, self.start, self.stop, self.calls = options, start, stop, calls
        self.at, self.called = start, 0
        self.totals: collections.Counter = collections.Counter()
        self.faults: list[tuple[int, str]] = []
        self.state = Path(folder) / f"state-{start}"
        self.errors = Path(folder) / f"errors-{start}"
        self.cache = Path(folder) / f"cache-{start}"
        self.process: subprocess.Popen | None = None
        self.last = (0, 0.0)

    def launch(self) -> None:
        self.state.write_bytes(bytes(32))
        left = self.options.until - time.monotonic()
        command = [sys.executable, __file__, "--worker", "--state", str(self.state)]
        command += ["--corpus", str(self.state.parent / "corpus.json")]
        command += ["--start", str(self.at), "--stop", str(self.stop)]
        command += ["--calls", str(self.calls), "--before", str(self.called)]
        command += ["--seed", str(self.options.seed), "--limit", str(self.options.limit)]
        command += ["--seconds", str(max(1.0, left))]
        env = os.environ | {"WEFT_CACHE_DIR": str(self.cache), "PYTHONFAULTHANDLER": ""}
        with open(self.errors, "w") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=env)
        self.last = (-1, time.monotonic())

    def step(self) -> bool:
        """Look after the worker; whether there is more to do."""
        number, phase, calls = struct.unpack("<QQQ", self.state.read_bytes()[:24])
        key = number * 4 + phase
        if key != self.last[0]:
            self.last = (key, time.monotonic())
        code = self.process.poll()
        if code is None:
            if time.monotonic() - self.last[1] < self.options.patience:
                return True
            self.process.kill()
            self.process.wait()
            self._lost(number, phase, calls, "hung")
        elif code == 0:
            found = json.loads(self.process.stdout.read().splitlines()[-1])  # programs may print
            self.totals.update(found["counts"])
            self.totals["mutants"] += found["done"]
            self.totals["calls"] += found["calls"]
            self.faults += map(tuple, found["faults"])
            return False
        elif code > 0:
            raise RuntimeError(f"a worker could not go on:\n{self.errors.read_text()[-2000:]}")
        else:
            self._lost(number, phase, calls, f"ended with {code}")
        if self.at < self.stop and time.monotonic() < self.options.until:
            self.launch()
            return True
        return False

    def _lost(self, number: int, phase: int, calls: int, how: str) -> None:
        self.faults.append((number, f"{how} while {PHASES[min(phase, 3)]}"))
        print(f"mutant {number}: {self.faults[-1][1]}", flush=True)
        self.totals["mutants"] += number - self.at + 1
        self.totals["calls"] += calls + (phase == 2)
        self.called += calls + (phase == 2)
        self.at = number + 1


def run(options) -> int:
    options.until = time.monotonic() + options.seconds
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        blobs = symbolic() if options.symbolic else corpus() + symbolic()
        blobs += samples() if options.samples else []
        text = json.dumps([blob.hex() for blob in blobs])
        (Path(folder) / "corpus.json").write_text(text)
        cuts = [
            options.start + options.reads * i // options.workers for i in range(options.workers + 1)
        ]
        share = options.calls // options.workers
        lanes = [Lane(options, a, b, share, folder) for a, b in itertools.pairwise(cuts)]
        for lane in lanes:
            lane.launch()
        going = list(lanes)
        while going:
            time.sleep(0.2)
            going = [lane for lane in going if lane.step()]
    totals = sum((lane.totals for lane in lanes), collections.Counter())
    faults = [fault for lane in lanes for fault in lane.faults]
    for name, count in sorted(totals.items()):
        print(f"{count:>10,}  {name}")
    print(f"{len(faults):>10,}  faults in {time.monotonic() - began:.0f} s, seed {options.seed}")
    for number, what in faults[:50]:
        print(f"            mutant {number}: {what}")
    return 1 if faults else 0


def parsed(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--reads", type=int, default=10_000, help="mutants in all")
    parser.add_argument("--calls", type=int, default=1_000, help="calls in all, at most")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--limit", type=float, default=5.0, help="seconds for one call")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds until it hangs")
    parser.add_argument("--start", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--symbolic", action="store_true", help="of symbolic shapes only")
    parser.add_argument("--samples", action="store_true", help="mutate the tests' samples too")
    parser.add_argument("--stop", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--before", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--state", help=argparse.SUPPRESS)
    parser.add_argument("--corpus", help=argparse.SUPPRESS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> int:
    options = parsed()
    if options.worker:
        work(options)
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
