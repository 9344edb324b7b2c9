"""The native caller of this process: its code, the tables it reads, and how functions get there.

Offsets inside Python objects are found by looking, not assumed: an instance with known objects in
its slots is searched for them. Where that fails, or where the machine is not known to the loader,
``ready`` says no and programs run by the interpreter.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from weft.backends.llvm.calls import tables
from weft.backends.llvm.native import pool
from weft.backends.llvm.native.machine import load_stubs, setting
from weft.base import knobs, lazy
from weft.base.cores import usable_cores
from weft.base.functional import lru, register_cache
from weft.base.lasting import lasting
from weft.core.trace import eval_trace, state
from weft.runtime.array import ArrayImpl
from weft.runtime.function import NativeFunction
from weft.runtime.memory import Block
from weft.runtime.places import ArrayType

_WORD = 8
# Seconds between the wish for the native caller and the work on it.
START_DELAY_S = 0.005
# Seconds after a compile in which another one may follow: the native caller waits for their end,
# unless some program is called again.
QUIET_S = 0.05
# How long a call sleeps so that another thread gets the interpreter.
TURN_S = 5e-5
# Freed memory kept for reuse, at most.
MAX_FREED_BYTES = 1 << 30


_FASTCALL = 0x80
TP_DEALLOC, _BF_GETBUFFER = 52, 1
_NOT_CALLABLE = 1 << 7
_DEFAULT_TYPE = 1 << 18


def slot_numbers(cls: type, names: Sequence[str]) -> dict[str, int]:
    """The word of each slot in instances of a class."""
    sentinels = {name: object() for name in names}
    instance: Any = object.__new__(cls)
    for name, sentinel in sentinels.items():
        setattr(instance, name, sentinel)
    words = (ctypes.c_size_t * (cls.__basicsize__ // _WORD)).from_address(id(instance))
    found = {name: list(words).index(id(sentinel)) for name, sentinel in sentinels.items()}
    for name in names:
        delattr(instance, name)
    return found


def words_of(values: Sequence[int]) -> np.ndarray:
    """Words in memory of their own; addresses may have their top bit set."""
    return np.array([v & 0xFFFFFFFFFFFFFFFF for v in values] or [0], np.uint64)


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


class Native:
    """The native caller, loaded."""

    def __init__(self) -> None:
        arrays = slot_numbers(ArrayImpl, ["aval", "_type", "_owner", "_view"])
        entries = slot_numbers(NativeFunction, ["_entries"])
        names = {f"SLOT_{n.strip('_').upper()}": k for n, k in {**arrays, **entries}.items()}
        names["SLOT_TYPE_AVAL"] = slot_numbers(ArrayType, ["aval"])["aval"]
        names["SLOT_ITEMS"] = tuple.__basicsize__ // _WORD
        self.code = load_stubs(_SOURCES, names, light=True)
        self.kept: list[Any] = [self.code]
        self.methods: dict[str, int] = {}
        self.block_type = self._block_type()
        self.memory = np.zeros(tables.LISTS + tables.CLASSES, np.uint64)
        self.memory[tables.ALLOWED] = MAX_FREED_BYTES
        self.shared = words_of(self._services())
        self.kept += [self.memory, self.shared]
        self.trim = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(self.code.symbols["trim"])

    def _block_type(self) -> type:
        symbols = self.code.symbols
        rows = [(TP_DEALLOC, symbols["block_dealloc"]), (_BF_GETBUFFER, symbols["block_buffer"])]
        return self.new_type(b"weft.runtime.Block", rows)

    def new_type(
        self, name: bytes, rows: Sequence[tuple[int, int]], words: int = tables.BLOCK_WORDS
    ) -> type:
        """A type by its specification: name, words of an instance, flags, slots."""
        slots = self.kept_words([word for row in [*rows, (0, 0)] for word in row])
        spec = [self.text(name), words * _WORD, _DEFAULT_TYPE | _NOT_CALLABLE, slots]
        make = ctypes.pythonapi.PyType_FromSpec
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
        return make(self.kept_words(spec))

    def kept_words(self, values: Sequence[int]) -> int:
        """The address of a C structure whose fields are, or are aligned as, words."""
        self.kept.append(words_of(values))
        return address(self.kept[-1])

    def text(self, text: bytes) -> int:
        """The address of a C string."""
        self.kept.append(ctypes.create_string_buffer(text))
        return ctypes.addressof(self.kept[-1])

    def _services(self) -> list[int]:
        values = {
            tables.MEMORY: address(self.memory),
            tables.READY: -1,
            tables.DEFAULT: usable_cores() - 1,
        }
        objects = {
            tables.BLOCK_TYPE: self.block_type,
            tables.ARRAY_TYPE: ArrayImpl,
            tables.NDARRAY_TYPE: np.ndarray,
            tables.NONE: None,
            tables.FALSE: False,
            tables.TRUE: True,
            tables.FLOAT_TYPE: float,
            tables.INT_TYPE: int,
            tables.DICT_TYPE: dict,
            tables.TUPLE_TYPE: tuple,
            tables.SLICE_TYPE: slice,
            tables.PIECE_TYPE: Block,
            tables.STATE: state,
            tables.NAME_TRACE: sys.intern("trace"),
            tables.EVAL_TRACE: eval_trace,
            tables.NAME_AXES: sys.intern("axis_env"),
            tables.EMPTY: (),
            tables.KNOBS: knobs.thread,
            tables.NAME_CONTEXT: sys.intern("context_key"),
            tables.NAME_THREADS: sys.intern("num_threads"),
            tables.PREPARE: self.prepare,
        }
        self.kept.append(objects)
        values.update((word, id(thing)) for word, thing in objects.items())
        return [values.get(word, 0) for word in range(tables.SERVICES)]

    def prepare(self, helpers: int) -> None:
        """Have the pool ready for so many helpers; without one, whoever calls works alone."""
        try:
            run, where = pool.prepared(helpers)
        except Exception:
            return
        self.shared[tables.RUN_POOL] = run
        self.shared[tables.STATE_POOL] = where
        self.shared[tables.READY] = max(helpers, 0)

    def forget_pool(self) -> None:
        """In a forked child: its parent's threads are not there."""
        self.shared[tables.READY] = 0xFFFFFFFFFFFFFFFF

    def function(self, name: str, table: tuple[Any, ...]) -> Any:
        """A native function as a Python callable, bound to a table and what it points to."""
        method = self.methods.get(name)
        if method is None:
            words = [self.text(name.encode()), self.code.symbols[name], _FASTCALL, 0]
            method = self.methods[name] = self.kept_words(words)
        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
        return make(method, table, None)

    def take_calls(self, function_type: type) -> None:
        """Let calls of a class's instances come here first."""
        place = _call_word(function_type)
        if place is not None:
            words = (ctypes.c_size_t * (place + 1)).from_address(id(function_type))
            words[place] = self.code.symbols["call"]

    def cache_clear(self) -> None:
        self.trim(address(self.memory))


_SOURCES = (
    "weft.backends.llvm.native.float_mode",
    "weft.kernel.kinds",
    "weft.backends.llvm.text.stub_expressions",
    "weft.backends.llvm.text.stub",
    "weft.backends.llvm.native.capi",
    "weft.backends.llvm.native.asking",
    "weft.backends.llvm.calls.walker",
    "weft.backends.llvm.calls.tables",
    "weft.backends.llvm.calls.blocks",
    "weft.backends.llvm.calls.running",
    "weft.backends.llvm.calls.caller",
)


def _call_word(function_type: type) -> int | None:
    """The word of a type that says how its instances are called, or None if it is not clear."""

    class Plain:
        pass

    class Callable:
        def __call__(self) -> None:
            pass

    def words(cls: type) -> list[int]:
        return list((ctypes.c_size_t * 40).from_address(id(cls)))

    plain, callable_, given = words(Plain), words(Callable), words(function_type)
    found = [i for i in range(10, 24) if not plain[i] and callable_[i] and callable_[i] == given[i]]
    return found[0] if len(found) == 1 else None


@lru(1)
def supported() -> bool:
    """Whether native programs can run here."""
    plain = sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)()
    return plain and pool.available()


def begin() -> None:
    """Find out what the machine is; while LLVM is loaded, no other library can be asked."""
    if supported():
        setting()


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """While a program is compiled; the native caller can wait until that is over."""
    global _compiled
    try:
        _busy.append(None)
        yield
    finally:
        del _busy[-1:]
        _compiled = time.monotonic()


def _made() -> Native:
    """The native caller, in a second try where Python's own faults have stopped the first."""
    try:
        return Native()
    except SystemError as error:
        import logging

        log = logging.getLogger(__name__)
        log.warning("the native caller is compiled again after a Python error (%r)", error)
        return Native()


class _Loading:
    """The native caller on its way: made by a thread of its own, so that nobody waits for it."""

    def __init__(self) -> None:
        self.made: Native | None = None
        self.error: BaseException | None = None
        self.repeated = self.begun = self.taken = False
        self.wanted = threading.Event()
        self.thread: threading.Thread | None = threading.Thread(target=self.make, name="weft-load")
        try:
            self.thread.start()
        except RuntimeError:  # the system has no thread left: made here
            self.thread = None
            self.wanted.set()
            self.make()

    def is_busy(self) -> bool:
        """Whether a thread is still at it."""
        return self.thread is not None and self.thread.is_alive()

    def _is_early(self) -> bool:
        """Whether somebody waits for a program that is compiled, or for what it needs; or programs
        are compiled one after the other, and none is called again."""
        if _busy or lazy.is_loading():
            return True
        return not self.repeated and time.monotonic() - _compiled < QUIET_S

    def give_way(self) -> None:
        """Let the thread run. It reads many files, and after each it waits for the interpreter as
        long as dozens of calls take."""
        if self.begun and self.thread is not threading.current_thread():
            time.sleep(TURN_S)

    def wait(self) -> None:
        """Have it made now, and wait for that."""
        self.wanted.set()
        if self.thread is not None:
            self.thread.join()

    def make(self) -> None:
        # whoever has begun this shall have its result before Python is busy here
        while not self.wanted.wait(START_DELAY_S) and self._is_early():
            pass
        self.begun = True
        try:
            self.made = _made()
            pool.load()
            for module in companions:
                lazy.load(module)
        except BaseException as error:
            self.error = error

    def take(self) -> Native | None:
        """What was made, put to work; the thread is over."""
        if self.made is None:
            import logging

            log = logging.getLogger(__name__)
            log.warning("programs run through Python: no native caller (%r)", self.error)
            return None
        pending = NativeFunction.__subclasses__()
        while pending:
            cls = pending.pop()
            self.made.take_calls(cls)
            pending += cls.__subclasses__()
        NativeFunction.take_calls = self.made.take_calls  # classes that are imported later
        # Arrays that live until the very end give their memory back to it: it is never freed.
        register_cache(lasting(self.made))
        return self.made


# Modules that the first native call needs: whoever makes the native caller loads them too.
companions = ["weft.backends.llvm.calls.entries"]
_native: Native | None = None
_loading: _Loading | None = None
_busy: list[None] = []
_compiled = 0.0  # when the last program was compiled
_lock = threading.Lock()


def native(wait: bool = True, wanted: bool = False, first: bool = False) -> Native | None:
    """The native caller; None where it is still being made and nobody waits for it.

    ``wanted`` says that somebody will, ``first`` that this is a program's first call: it does not
    need the native caller, which later calls do.
    """
    global _native, _loading
    if _native is not None:
        return _native
    with _lock:
        if _native is None and _loading is None:
            _loading = _Loading()
        loading = _loading
    if wanted and loading is not None:
        loading.wanted.set()
    if loading is None or loading.taken:
        return _native
    loading.repeated |= not first
    if not wait and loading.is_busy():
        if not first:
            loading.give_way()
        return _native
    loading.wait()
    with _lock:
        if not loading.taken:
            loading.taken = True
            _native = loading.take()
    return _native


def is_loaded() -> bool:
    """Whether the native caller is there."""
    return _native is not None


def is_loading() -> bool:
    """Whether the native caller is still being made."""
    return supported() and _native is None and (_loading is None or not _loading.taken)


def _before_fork() -> None:
    # a child would wait for ever for a thread that only its parent has
    native_loaded = _loading
    if native_loaded is not None:
        native_loaded.wait()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
    _busy.clear()
    if _native is None and _loading is not None:
        _loading.taken = False  # a thread of the parent's may have been taking it
    if _native is not None:
        _native.forget_pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork)
