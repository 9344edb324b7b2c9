"""Tasks of an operation run on arrays, as a compiled program would."""

import ctypes

import numpy as np

from tests.backends.modules import module
from weft.backends.cpu import library
from weft.backends.llvm.native import machine, pool

# A kernel that adds 1 to elements from one place to another.
INCREMENT = module("""
define void @k(ptr %buffers, i64 %start, i64 %stop) {
entry:
  %b = load ptr, ptr %buffers
  %some = icmp slt i64 %start, %stop
  br i1 %some, label %loop, label %done
loop:
  %i = phi i64 [ %start, %entry ], [ %n, %loop ]
  %p = getelementptr i32, ptr %b, i64 %i
  %v = load i32, ptr %p
  %w = add i32 %v, 1
  store i32 %w, ptr %p
  %n = add i64 %i, 1
  %more = icmp slt i64 %n, %stop
  br i1 %more, label %loop, label %done
done:
  ret void
}
""")


def function(address: machine.Address):
    """A kernel as a function of buffer addresses, start and stop, which keeps its code loaded."""
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

    def call_it(addresses: list[int], start: int, stop: int, kept=address) -> None:
        kind(int(kept))((ctypes.c_void_p * len(addresses))(*addresses), start, stop)

    return call_it


def run_tasks(lowered, ins, outs):
    """Results of types ``outs``. Memory beyond each array must stay as it was."""
    arrays = {
        "in": [_guarded(x.nbytes, x) for x in ins],
        "out": [_guarded(int(np.prod(t.shape)) * t.dtype.itemsize) for t in outs],
        "scratch": [_guarded(n) for n in lowered.scratch],
    }
    code = machine.compile_many([(task.module, task.name) for task in lowered.tasks])
    for task, address in zip(lowered.tasks, code, strict=True):
        numbers = [np.array(what, np.int64) for kind, what in task.places if kind == "numbers"]
        tables = iter(numbers)
        called = machine.compile_many([what for kind, what in task.places if kind == "code"])
        arrays["code"] = dict(zip([w for k, w in task.places if k == "code"], called, strict=True))
        pointers = [
            next(tables).ctypes.data if place.kind == "numbers" else _address(arrays, *place)
            for place in task.places
        ]
        given = (ctypes.c_void_p * len(pointers))(*pointers)
        pool.run(address, given, 0, task.extent, task.chunk)
    for memory in [m for kind in ("in", "out", "scratch") for m in arrays[kind]]:
        assert np.all(memory[:64] == 0xAB) and np.all(memory[-64:] == 0xAB)
    for memory, x in zip(arrays["in"], ins, strict=True):
        assert memory[64:-64].tobytes() == x.tobytes()
    views = [m[64:-64].view(t.dtype) for m, t in zip(arrays["out"], outs, strict=True)]
    return [x.reshape(t.shape) for x, t in zip(views, outs, strict=True)]


def _guarded(size, content=None):
    memory = np.full(size + 192, 0xAB, np.uint8)
    shift = -memory.ctypes.data % 64
    memory = memory[shift : shift + size + 128]
    filled = 0xCD
    if content is not None:
        filled = np.frombuffer(content.tobytes(), np.uint8)
    memory[64:-64] = filled
    return memory


def _address(arrays, kind, what):
    if kind == "library":
        return library.address(what)
    if kind == "data":
        return what.ctypes.data
    if kind == "code":
        return arrays[kind][what]
    return arrays[kind][what].ctypes.data + 64
