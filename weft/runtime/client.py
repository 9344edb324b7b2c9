"""What every backend is to its callers: a client that has memory, compiles programs and runs them.

A call takes one road whatever the device is: `weft.runtime.site` finds the client and the places
of the results, and the client does the rest. `weft.runtime.clients` has the two kinds of clients,
those on the host's memory and those with memory of their own; `weft.runtime.divided` has those that
divide programs over several others.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from weft.base import knobs
from weft.runtime import registry


class Memory(ABC):
    """Memory that arrays own pieces of."""

    is_host = False  # whether it is the memory of this process

    @abstractmethod
    def put(self, value: np.ndarray) -> Any:
        """An owner of memory with values of the host's, which may change when this returns."""

    @abstractmethod
    def moved(self, x: Any) -> Any:
        """An owner of memory with the values of an array that is elsewhere."""

    @abstractmethod
    def copy(self, owner: Any) -> Any:
        """An owner of a copy."""

    @abstractmethod
    def copy_out(self, owner: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The values on the host, once they are computed."""

    @abstractmethod
    def begin_copy_out(self, owner: Any, dtype: Any, shape: tuple[int, ...]) -> None:
        """Begin to copy values to the host, for ``copy_out`` to find."""

    def layout(self, owner: Any) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]] | None:
        """The dimensions from the fastest on, and the sizes of tiles; None for rows in order."""
        return None


class HostMemory(Memory):
    """Memory of the process: what arrays on host devices own are NumPy arrays and native blocks."""

    is_host = True

    def put(self, value: np.ndarray) -> Any:
        made = np.array(value, order="C")
        made.setflags(write=False)
        return made

    def moved(self, x: Any) -> Any:
        return x._value

    def copy(self, owner: Any) -> Any:
        return self.put(np.frombuffer(owner, np.uint8))

    def copy_out(self, owner: Any, dtype: Any, shape: tuple[int, ...]) -> np.ndarray:
        return np.frombuffer(owner, dtype).reshape(shape)

    def begin_copy_out(self, owner: Any, dtype: Any, shape: tuple[int, ...]) -> None:
        """There is nothing to do: the values are there."""


HOST_MEMORY = HostMemory()


class Special(Exception):
    """A program whose code depends on the very sizes it was made for."""


class InNamedSizes(ABC):
    """Code of a program whose sizes have names, and what it assumes of them."""

    is_special: bool  # whether it serves nothing but the sizes it was made with

    @abstractmethod
    def instance(self, values: Mapping[str, int]) -> list[int] | None:
        """The numbers of all sizes for values of the names, or None where an assumption fails."""

    @abstractmethod
    def served(
        self, numbers: list[int], constants: Mapping[int, tuple[Any, Any]], own: Mapping[int, Any]
    ) -> Any:
        """The code of a program with these numbers, and with constants by the ids of those that
        stand for them; ``own`` are those that are the program's. None where it turns out that these
        numbers need code of their own."""


class Compiler(ABC):
    """How a client makes code and keeps it. What the code is, is the client's own."""

    name: str
    has_named_sizes = False  # whether it makes code that serves several shapes
    is_stored = False  # whether it keeps code on disk
    own_loops = False  # whether threads run small elements of batched loops to their own end

    @abstractmethod
    def make(self, closed: Any, donated: tuple[bool, ...], watch: Any) -> Any:
        """Code for a program's sizes; ``watch`` takes notes if it is given."""

    def in_named_sizes(
        self, closed: Any, donated: tuple[bool, ...], names: Sequence[str], eager: bool
    ) -> InNamedSizes:
        """Code for a program in named sizes; raises Special where there can be none."""
        raise Special

    def load(self, identity: Any) -> Any:
        """The code of a program, if the disk has all of it."""
        return None

    def keep(self, identity: Any, made: Any) -> None:
        """Write code to disk."""
        return None

    def expect(self) -> None:
        """Told that a program will be compiled, before it is planned."""
        return None

    def short(self) -> int:
        """The greatest size that code in named sizes leaves as it is."""
        return 0


class Told(NamedTuple):
    """What became of a program, for ``explain``: figures, and the story as a text."""

    text: str
    steps: Sequence[Any] = ()
    kernels: int = 0
    libraries: int = 0
    own: int = 0
    python: int = 0
    moved: float = 0.0
    unfused: float = 0.0
    arena: int = 0
    shape_generic: bool = False
    seconds: Mapping[str, float] = MappingProxyType({})
    origins: Mapping[str, int] = MappingProxyType({})
    parts: Any = None  # a function that gives what a picture shows; None for its equations


class Donated(NamedTuple):
    """Arguments whose memory a call may take.

    ``flags`` says of each argument whether it is donated. ``refs`` has the numbers of those that
    references hold, and whether nobody else does: a reference never loses its value without getting
    another one.
    """

    flags: tuple[bool, ...] = ()
    refs: Sequence[tuple[int, bool]] = ()


NONE = Donated()


class Runner(ABC):
    """Who runs programs and single operations: a client, or what divides them over clients.

    ``places`` are the placements of a program's results, one for each; None where all of them are
    where most arrays are.
    """

    memory: Memory

    @abstractmethod
    def call(
        self, closed: Any, args: Sequence[Any], places: Any = None, donated: Donated = NONE
    ) -> list[Any]:
        """The results of a program; donated arguments whose memory was taken are deleted."""

    @abstractmethod
    def evaluate(
        self, primitive: Any, args: Sequence[Any], params: dict[str, Any], places: Any = None
    ) -> Any:
        """The result, or results, of one operation."""

    @abstractmethod
    def remember(self, pattern: Any, places: Any = None) -> bool:
        """Let native code answer calls of a pattern (``runtime/patterns.py``); False if it is too
        early to say."""

    def remember_watched(self, pattern: Any, places: Any, asked: Any) -> bool:
        """The same for calls whose checks are looked at after each of them."""
        return True


class Client(Runner):
    """A backend's device, or several that hold arrays together."""

    platform = "cpu"
    device_name, device_prefix = "CpuDevice", "cpu"
    device_kind = "cpu"
    dlpack_device = (1, 0)
    platform_version = runtime_type = "weft"
    # whether it runs programs over devices of several processes itself
    joins_processes = False

    def about(self) -> dict[str, str]:
        """What there is to know of it, in words, for reports."""
        return {}

    # --- programs ---------------------------------------------------------------------------------

    @abstractmethod
    def executable(self, closed: Any, donated: tuple[bool, ...] = ()) -> Any:
        """A program compiled; None where it is run equation by equation."""

    @abstractmethod
    def study(self, closed: Any, donated: tuple[bool, ...] = ()) -> Any:
        """The costs, memory and text of a compiled program, for the stages of ``jit``."""

    @abstractmethod
    def told(
        self, closed: Any, name: str, traced: float, args: Sequence[Any] | None = None
    ) -> Told:
        """What became of a program that took so many seconds to trace; with arguments, the time of
        each of its steps too."""

    # --- arrays -----------------------------------------------------------------------------------

    @abstractmethod
    def home(self) -> Any:
        """The placement of arrays that live here."""

    @abstractmethod
    def over(self, sharding: Any) -> Client:
        """The client of arrays that a sharding divides over several devices of this kind."""

    def divided_as(self, division: Any) -> Client:
        """The client of programs whose arguments and results are divided over a mesh like this,
        where that is part of what is compiled."""
        return self

    @abstractmethod
    def wait(self) -> None:
        """Wait for all that is being computed."""

    @abstractmethod
    def is_idle(self) -> bool:
        """Whether all that was asked for has been computed."""

    @abstractmethod
    def memory_stats(self) -> dict[str, Any] | None:
        """What is in use of the memory, by JAX's names; None for the host's."""

    @abstractmethod
    def part(self, x: Any, device: Any, index: tuple[slice, ...]) -> Any:
        """The part of an array on one of its devices."""

    # --- other libraries --------------------------------------------------------------------------

    @abstractmethod
    def to_dlpack(
        self, x: Any, stream: Any, max_version: Any, dl_device: Any, copy: bool | None
    ) -> Any:
        """An array's memory as a capsule that other libraries read, without a copy unless asked."""

    @abstractmethod
    def array_interface(self, x: Any) -> dict[str, Any]:
        """What ``__cuda_array_interface__`` says of an array; AttributeError where it is none."""

    def __repr__(self) -> str:
        return f"Client({self.platform})"


@functools.cache
def host_named(name: str) -> Any:
    """The client of the host by its name in the registry."""
    (found,) = registry.CLIENTS[name].module.clients()
    return found


def host() -> Any:
    """The client that runs what is computed in the host's memory, as the knobs say."""
    thread = knobs.thread
    return host_named("checked" if thread.debug_nans or thread.debug_infs else thread.backend)
