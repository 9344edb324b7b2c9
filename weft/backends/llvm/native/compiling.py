"""Modules on their way through LLVM: compiled by threads, while more of them are still written."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any, Self

from weft.backends.llvm.code import Effort, Module
from weft.backends.llvm.native.llvm import Llvm, is_crowded, path
from weft.backends.llvm.native.parts import divided, joined
from weft.backends.llvm.native.together import apart, joinable, joint
from weft.base import disk, progress
from weft.base.cores import threads
from weft.base.forks import Stay, across_forks
from weft.base.functional import lru
from weft.base.helpers import Helper
from weft.base.lazy import opener
from weft.base.limits import address_space_left, need_address_space
from weft.base.stacks import with_room

# Address space that LLVM takes, and that a module may take in it: without, it ends the process.
LLVM_BYTES, MODULE_BYTES = 160 << 20, 96 << 20
# Lines of text up to which a thread takes more parts into a module.
JOINED_LINES = 300
# Threads up to which whoever needs a program compiles some of it. Where there are more, they have
# memory that LLVM has used before.
MAX_COMPILING_CALLERS = 3
# Target machines that no thread uses at the moment, by their level of care.
_spare: dict[int, list[int]] = {0: [], 2: []}
# How many threads compile while LLVM tracks register pressure, or while it does not.
_tracking, _compilers = True, 0
_idle = threading.Condition()
_looked, _begun, _opened = False, False, False
# Whoever needs LLVM while a thread is loading it waits for that thread.
_loading = across_forks(threading.Lock())
# A child made in the middle of a compile would find LLVM's locks held for ever.
_inside = across_forks(Stay())


def llvm() -> Llvm:
    """LLVM, loaded when the first text is compiled."""
    with _loading:
        return _llvm()


@lru(1)
def _llvm() -> Llvm:
    need = MODULE_BYTES if _opened else LLVM_BYTES + MODULE_BYTES
    need_address_space(need, "loading LLVM, which compiles functions,")
    return Llvm()


@contextlib.contextmanager
def _tracked(library: Llvm, wanted: bool) -> Iterator[None]:
    """A time at which LLVM tracks register pressure as wanted; it does where nobody compiles."""
    global _tracking, _compilers
    with _idle:
        _idle.wait_for(lambda: _tracking == wanted or not _compilers)
        if _tracking != wanted:
            library.track_pressure(wanted)
            _tracking = wanted
        _compilers += 1
    try:
        yield
    finally:
        with _idle:
            _compilers -= 1
            if not (_compilers or _tracking):
                library.track_pressure(True)
                _tracking = True
            _idle.notify_all()


def compile_now(module: Module) -> bytes:
    """The object of a module."""
    parts = divided(module)
    if len(parts) == 1:
        return compile_parts(parts)[0]
    with Batch() as batch:
        batch.divide(b"", parts)
        return batch.finish()[b""]


def compile_parts(parts: list[Module]) -> list[bytes]:
    """The objects of modules that go to LLVM as they are, or as one."""
    whole = joint(parts) if len(parts) > 1 else None
    if whole is None:
        return [with_room(_compile_part, part) for part in parts]
    return apart(with_room(_compile_part, whole), len(parts))


def _compile_part(part: Module) -> bytes:
    with _inside:
        library = llvm()
        level = 0 if part.effort.is_quick else 2
        need_address_space(MODULE_BYTES, "compiling a function")
        try:
            machine = _spare[level].pop()
        except IndexError:
            machine = library.machine(level)
        try:
            with _tracked(library, is_crowded(part)) if level else contextlib.nullcontext():
                return library.compile(part, machine)
        finally:
            _spare[level].append(machine)


def preload(first: Callable[..., None], needed: bool = False) -> None:
    """Begin to load LLVM, by a thread, if it is needed or no code on disk makes it unnecessary.

    Then ``first`` is called, with what tells whether nobody waits for LLVM or for the process to
    end.
    """
    global _looked, _begun
    if _begun or (_looked and not needed):
        return
    _looked = True
    if threads() > 1 and (needed or not disk.has_entries()):
        _begun = True
        with contextlib.suppress(RuntimeError):  # no thread left: whoever needs LLVM loads it
            threading.Thread(target=with_room, args=[_load, opener(path()), first]).start()


def _load(open_library: Callable[[], Any], first: Callable[..., None]) -> None:
    global _opened
    left = address_space_left()
    if left is not None and left < LLVM_BYTES + MODULE_BYTES:
        return  # whoever needs it says so
    with _inside:
        _opened = True
        open_library()  # before anything that would give way to other threads
        with _loading:
            library = _llvm()
            _spare[2].append(library.machine())
        first(lambda: _inside.count() == 1 and threading.main_thread().is_alive())
        if len(_spare[2]) < 2:
            _spare[2].append(library.machine())  # for who compiles beside another


class Batch:
    """Objects by key, from the disk or from LLVM.

    A thread begins as soon as there is more than one part, or one ``early``, so that a program's
    first kernels are made while its last ones are being planned. To be left like an open file: what
    is not begun by then is not made.
    """

    def __init__(self) -> None:
        self.queue: list[Module] = []
        self.objects: dict[bytes, Any] = {}  # None until it is made
        self.parts: dict[bytes, list[Module]] = {}  # what a module is made of
        self.made: dict[Module, Any] = {}  # objects by part, or what they failed with
        self.lines: dict[Module, Any] = {}  # what shows how far the parts are
        self.new: set[bytes] = set()
        self.helpers: list[Helper] = []
        self.taking = threading.Lock()
        self.sharers = max(1, threads() - 1)  # who adds parts takes none yet

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        with self.taking:
            self.queue.clear()

    def add(self, key: bytes, module: Module, early: bool = False) -> None:
        """See that there is an object of a module."""
        if key in self.objects:
            return
        found = self.objects[key] = disk.load(key)
        if found is None:
            self.new.add(key)
            self.divide(key, divided(module), early)

    def divide(self, key: bytes, parts: list[Module], early: bool = False) -> None:
        """Have the parts of a module compiled."""
        self.parts[key] = parts
        # the longest is taken first; modules have parts in common: one tile with many a walk
        for part in sorted(parts, key=lambda part: len(str(part))):
            if part not in self.made:
                self.made[part] = None
                self.lines[part] = progress.expect(1)
                self.queue.insert(0 if part.effort is Effort.QUICK else len(self.queue), part)
        if len(self.queue) > (not early) and self.queue[-1].effort is not Effort.QUICK:
            self._help()

    def finish(self) -> dict[bytes, Any]:
        """All objects, when they are there."""
        # Long ones first, so that none is begun last; a table is one line, and soon read. The
        # longest is taken before others are begun, who would read theirs under Python's lock.
        with self.taking:
            self.sharers = threads()
            self.queue.sort(key=_order)
        longest = self._taken() if threads() <= MAX_COMPILING_CALLERS else []
        for _ in range(len(self.queue)):
            self._help()
        if longest:
            self._work(longest)
        for helper in self.helpers:
            helper.join()
        self._work()  # what was added after threads had looked
        for part in self.made.values():
            if isinstance(part, BaseException):
                raise part
        for key, parts in self.parts.items():
            self.objects[key] = joined([self.made[part] for part in parts])
        return self.objects

    def _help(self) -> None:
        """Have one thread more, if there may be."""
        self.helpers = [helper for helper in self.helpers if helper.is_alive()]
        if len(self.helpers) + 1 < threads():
            with contextlib.suppress(RuntimeError):  # no thread left: whoever waits does the work
                self.helpers.append(Helper(self._work))

    def _work(self, parts: list[Module] | None = None) -> None:
        parts = parts or self._taken()
        while parts:
            made: list[Any]
            try:
                made = compile_parts(parts)
            except Exception as error:
                made = [error] * len(parts)
            except BaseException:  # Ctrl-C: nobody waits for the rest
                self.__exit__()
                raise
            self.made.update(zip(parts, made, strict=True))
            for part in parts:
                progress.finish(self.lines.get(part), 1)
            parts = self._taken()

    def _taken(self) -> list[Module]:
        """The next parts for one thread: its share of what waits, as far as it is soon made."""
        with self.taking:
            if not self.queue:
                return []
            share = sum(map(_weight, self.queue)) // self.sharers
            found = [self.queue.pop()]
            size, lines = _weight(found[0]), found[0].line_count
            if size < share and joinable(found[0]):
                care = _care(found[0])
                for part in [x for x in self.queue[::-1] if _care(x) == care]:
                    more = _weight(part)
                    # what goes over the share by more than half of it is left to others
                    if size + more // 2 <= share and lines < JOINED_LINES and joinable(part):
                        self.queue.remove(part)
                        found.append(part)
                        size, lines = size + more, lines + part.line_count
            return found


def _care(part: Module) -> tuple[bool, bool, bool]:
    """What parts of one module have in common: effort, and with it whether pressure is tracked."""
    careful = not part.effort.is_quick
    return careful, careful and is_crowded(part), part.effort is Effort.LOOP


def _order(part: Module) -> tuple[bool, int]:
    """What orders parts: whether one keeps others out of LLVM, and about how long it takes."""
    return _care(part)[1], _weight(part)


def _weight(part: Module) -> int:
    """About how long a part takes LLVM, in lines that are made with care."""
    return part.line_count // (4 if part.effort.is_quick else 1)
