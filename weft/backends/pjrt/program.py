"""Programs that a plugin has compiled: made of StableHLO, kept on disk, run on its devices."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from weft.backends.pjrt import header, proto
from weft.backends.pjrt.api import Api, PjrtError, bytes_at, named_values, text_at
from weft.backends.pjrt.buffers import Buffer
from weft.base import disk

_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_EXECUTE = header.ARGS["LoadedExecutable_Execute"]


class Code:
    """What a compiler of a plugin has made: figures, text and bytes. It isn't loaded."""

    def __init__(self, api: Api, handle: int) -> None:
        self.api, self.handle = api, handle

    def __del__(self) -> None:
        self.api.destroy("Executable_Destroy", executable=self.handle)

    @property
    def name(self) -> str:
        return self.api.text("Executable_Name", "executable_name", executable=self.handle)

    def costs(self) -> dict[str, Any]:
        """The compiler's own count of operations and bytes, and the seconds it expects."""
        found = self.api.call("Executable_GetCostAnalysis", executable=self.handle)
        return named_values(found.properties, found.num_properties)

    def memory(self) -> dict[str, int]:
        """Bytes of code, arguments, results and memory in between, by their names in the API."""
        found = self.api.call("Executable_GetCompiledMemoryStats", executable=self.handle)
        names = [name for name, _ in found._fields_ if name.endswith("_in_bytes")]
        return {name: getattr(found, name) for name in names}

    def optimized(self) -> tuple[str, bytes]:
        """The program after the compiler's passes: its format, and its bytes."""
        kind = header.Program
        program = kind(struct_size=kind.SIZE)
        given = {"executable": self.handle, "program": ctypes.addressof(program)}
        self.api.call("Executable_OptimizedProgram", **given)  # which tells the size
        held = ctypes.create_string_buffer(max(program.code_size, 1))
        program.code = ctypes.addressof(held)
        self.api.call("Executable_OptimizedProgram", **given)
        code = bytes_at(program.code, program.code_size)
        return text_at(program.format, program.format_size), code

    def serialize(self) -> bytes:
        """The executable as bytes, which the same plugin loads again."""
        found = self.api.call("Executable_Serialize", executable=self.handle)
        made = bytes_at(found.serialized_bytes, found.serialized_bytes_size)
        if found.serialized_executable_deleter:
            _DELETER(found.serialized_executable_deleter)(found.serialized_executable)
        return made


class Executable:
    """A program on one or several devices of a plugin.

    ``taken`` has the numbers of the arguments whose memory results are in.
    """

    def __init__(
        self, api: Api, handle: int, devices: int, arguments: int, outputs: int, taken: Any
    ) -> None:
        self.api, self.handle = api, handle
        self.devices, self.arguments, self.outputs = devices, arguments, outputs
        self.taken = frozenset(taken)
        self.types: dict[Any, Any] = {}  # of results, by where they are to be
        self.native: dict[Any, Any] = {}  # tables for native code, by the same
        self._run = api.function("LoadedExecutable_Execute")
        self._code: Code | None = None
        options = header.ExecuteOptions
        self._options = options(struct_size=options.SIZE)
        self.options_address = ctypes.addressof(self._options)
        # types of arrays of pointers are slow to make
        self._row, self._rows = ctypes.c_void_p * arguments, ctypes.c_void_p * devices
        self._out = ctypes.c_void_p * max(outputs, 1)

    def __del__(self) -> None:
        self.api.destroy("LoadedExecutable_Destroy", executable=self.handle)

    @property
    def code(self) -> Code:
        """What was compiled."""
        if self._code is None:
            found = self.api.call(
                "LoadedExecutable_GetExecutable", loaded_executable=self.handle
            ).executable
            self._code = Code(self.api, found)
        return self._code

    def run(
        self, given: Sequence[Sequence[Buffer]], kept: Sequence[int] = ()
    ) -> list[list[Buffer]]:
        """The results on each device, for the arguments on each; the call doesn't wait.

        ``kept`` are arguments whose memory is not to be taken, though the program could.
        """
        address = ctypes.addressof
        ins = [self._row(*[x.handle for x in row]) for row in given]
        outs: list[Any] = [self._out() for _ in given]
        options: Any = self._options
        if kept:
            held = (ctypes.c_int64 * len(kept))(*kept)
            options = header.ExecuteOptions(
                struct_size=header.ExecuteOptions.SIZE,
                non_donatable_input_indices=address(held),
                num_non_donatable_input_indices=len(kept),
            )
        in_lists = self._rows(*[address(row) for row in ins])
        out_lists = self._rows(*[address(row) for row in outs])
        call = _EXECUTE(
            _EXECUTE.SIZE,
            None,
            self.handle,
            address(options),
            address(in_lists),
            self.devices,
            self.arguments,
            address(out_lists),
        )
        error = self._run(address(call))
        if error:
            raise self.api.error(error)
        api, count = self.api, self.outputs
        return [[Buffer(api, handle) for handle in row[:count]] for row in outs]


def compile_for(api: Api, client: int, text: str, options: bytes, version: str) -> tuple[int, bool]:
    """A loaded executable of a module, and whether the disk had it."""
    key = disk.digest(b"\0".join([api.name.encode(), version.encode(), options, text.encode()]))
    stored = disk.load(key)
    if stored is not None and api.has("Executable_DeserializeAndLoad"):
        try:
            return _loaded(api, client, stored), True
        except PjrtError:
            pass  # made by another version, or for another machine
    with _program(text) as program:
        held = ctypes.create_string_buffer(options, len(options))
        handle = api.call(
            "Client_Compile",
            client=client,
            program=program.address,
            compile_options=ctypes.addressof(held),
            compile_options_size=len(options),
        ).executable
    _keep(api, key, handle)
    return handle, False


def compile_ahead(api: Api, topology: int, text: str, options: bytes) -> Code:
    """A module compiled for devices that are described, and need not be there."""
    with _program(text) as program:
        held = ctypes.create_string_buffer(options, len(options))
        found = api.call(
            "Compile",
            topology=topology,
            program=program.address,
            compile_options=ctypes.addressof(held),
            compile_options_size=len(options),
        )
    return Code(api, found.executable)


class _program:
    """The text of a module as a struct, held while it is compiled."""

    def __init__(self, text: str) -> None:
        code = text.encode()
        self._held = (
            ctypes.create_string_buffer(code, len(code)),
            ctypes.create_string_buffer(b"mlir"),
        )
        kind = header.Program
        at, form = map(ctypes.addressof, self._held)
        self._struct = kind(kind.SIZE, None, at, len(code), form, len(b"mlir"))
        self.address = ctypes.addressof(self._struct)

    def __enter__(self) -> _program:
        return self

    def __exit__(self, *_: Any) -> None:
        """It has been read."""


def _loaded(api: Api, client: int, stored: bytes) -> int:
    held = ctypes.create_string_buffer(stored, len(stored))
    found = api.call(
        "Executable_DeserializeAndLoad",
        client=client,
        serialized_executable=ctypes.addressof(held),
        serialized_executable_size=len(stored),
    )
    return int(found.loaded_executable)


def _keep(api: Api, key: bytes, handle: int) -> None:
    """Write an executable to disk, where there is a cache and the plugin can."""
    if disk.folder() is None or not api.has("Executable_Serialize"):
        return
    found = api.call("LoadedExecutable_GetExecutable", loaded_executable=handle)
    try:
        disk.save(key, Code(api, found.executable).serialize())
    except PjrtError as error:
        if error.code != "UNIMPLEMENTED":
            raise


def device_options(
    ids: Sequence[int], spmd: bool = False, overrides: Any = None, text: str = ""
) -> bytes:
    """The compile options for devices by their ids, and for the partitioner of a module's text."""
    return proto.compile_options(ids, spmd, overrides, "  sdy.mesh " in text)
