"""Modules on their way through LLVM: compiled by threads, while more of them are still written."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from weft.backends.cpu import disk, loader
from weft.backends.cpu.cores import threads
from weft.backends.cpu.llvm import QUICK, Llvm, opener
from weft.backends.cpu.parts import divided, joined
from weft.base.forks import across_forks
from weft.base.functional import lru

# Target machines that no thread uses at the moment.
_spare: list[int] = []
# How many threads are inside LLVM; whoever forks waits until none is.
_inside = 0
_free = threading.Condition()
_looked, _begun = False, False
# Whoever needs LLVM while a thread is loading it waits for that thread.
_loading = across_forks(threading.Lock())
# LLVM sets itself up at its first module, which takes as long as a small kernel.
_FIRST = """define void @first(ptr %p) {
  %x = load <8 x float>, ptr %p, align 4
  %y = fadd <8 x float> %x, %x
  store <8 x float> %y, ptr %p, align 4
  ret void
}
"""


def llvm() -> Llvm:
    """LLVM, loaded when the first text is compiled."""
    with _loading:
        return _llvm()


@lru(1)
def _llvm() -> Llvm:
    return Llvm(loader.supported())


@contextlib.contextmanager
def _within() -> Iterator[None]:
    global _inside
    with _free:
        _inside += 1
    try:
        yield
    finally:
        with _free:
            _inside -= 1
            _free.notify_all()


def compile_now(text: str) -> bytes:
    """The object of a module."""
    texts = divided(text)
    if len(texts) == 1:
        return compile_part(text)
    with Batch() as batch:
        batch.divide(b"", texts)
        return batch.finish()[b""]


def compile_part(text: str) -> bytes:
    """The object of a text that goes to LLVM as it is."""
    with _within():
        library = llvm()
        if text.startswith(QUICK):
            machine = library.machine(0)
        else:
            machine = _spare.pop() if _spare else library.machine()
        try:
            return library.compile(text, machine)
        finally:
            if text.startswith(QUICK):
                library.dispose(machine)
            else:
                _spare.append(machine)


def preload(needed: bool = False, then: Callable[[], Any] | None = None) -> None:
    """Begin to load LLVM, by a thread, if it is needed or no code on disk makes it unnecessary.

    ``then`` has code made that nearly every program runs.
    """
    global _looked, _begun
    if _begun or (_looked and not needed):
        return
    _looked = True
    if threads() > 1 and (needed or not disk.has_entries()):
        _begun = True
        threading.Thread(target=_load, args=[opener(), then]).start()


def _load(open_library: Callable[[], Any], then: Callable[[], Any] | None) -> None:
    with _within():
        open_library()  # before anything that would give way to other threads
        library = llvm()
        machine = library.machine()
        if _inside == 1:  # nobody waits for LLVM yet: what it does once is done by then
            library.compile(_FIRST, machine)
        _spare.append(machine)
    if then is not None and not _inside:  # who compiles has the processor to himself
        then()


class Batch:
    """Objects by key, from the disk or from LLVM.

    A thread begins as soon as there is more than one text, so that a program's first kernels are
    made while its last ones are being planned. To be left like an open file: what is not begun by
    then is not made.
    """

    def __init__(self) -> None:
        self.queue: list[tuple[bytes, int, str]] = []
        self.objects: dict[bytes, Any] = {}  # None until it is made
        self.parts: dict[bytes, list[Any]] = {}  # objects, or what they failed with
        self.new: set[bytes] = set()
        self.helpers: list[threading.Thread] = []

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *_: Any) -> None:
        self.queue.clear()

    def add(self, key: bytes, text: str) -> None:
        """See that there is an object of a text."""
        if key in self.objects:
            return
        found = self.objects[key] = disk.load(key)
        if found is None:
            self.new.add(key)
            self.divide(key, divided(text))

    def divide(self, key: bytes, texts: list[str]) -> None:
        """Have the parts of a module compiled."""
        self.parts[key] = [None] * len(texts)
        self.queue += [(key, i, part) for i, part in enumerate(texts)]
        if len(self.queue) > 1:
            self._help()

    def finish(self) -> dict[bytes, Any]:
        """All objects, when they are there."""
        # Long ones first, so that none is begun last.
        self.queue.sort(key=lambda item: len(item[2]))
        for _ in range(len(self.queue) - 1):
            self._help()
        self._work()
        for helper in self.helpers:
            helper.join()
        for key, made in self.parts.items():
            for part in made:
                if isinstance(part, BaseException):
                    raise part
            self.objects[key] = joined(made)
        return self.objects

    def _help(self) -> None:
        """Have one thread more, if there may be."""
        self.helpers = [helper for helper in self.helpers if helper.is_alive()]
        if len(self.helpers) + 1 < threads():
            self.helpers.append(threading.Thread(target=self._work, daemon=True))
            self.helpers[-1].start()

    def _work(self) -> None:
        while True:
            try:
                key, number, text = self.queue.pop()
            except IndexError:
                return
            try:
                self.parts[key][number] = compile_part(text)
            except BaseException as error:
                self.parts[key][number] = error


def _before_fork() -> None:
    # A child made in the middle of a compile would find LLVM's locks held for ever.
    _free.acquire()
    while _inside:
        _free.wait()


def _after_fork() -> None:
    _free.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )
