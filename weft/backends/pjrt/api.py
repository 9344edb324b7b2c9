"""A plugin's table of functions, called with checked errors; and what its values are in Python."""

from __future__ import annotations

import atexit
import ctypes
import struct as packing
from collections.abc import Sequence
from typing import Any

import numpy as np

from weft.backends.pjrt import header
from weft.backends.pjrt.header import ARGS, NUMBERS
from weft.base.errors import JaxRuntimeError

_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_SILENT = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class PjrtError(JaxRuntimeError):
    """What a plugin reports: ``code`` is the name of its status, as RESOURCE_EXHAUSTED."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code


class Api:
    """The functions of a plugin, by their names in the C header without ``PJRT_``.

    ``name`` is what the plugin is called in errors. A function that the plugin does not have
    raises PjrtError with the code UNIMPLEMENTED.
    """

    end = np.zeros(1, np.uint64)  # 1 when the process ends, also for native code

    def __init__(self, table: int, name: str, library: Any = None) -> None:
        self.table, self.name, self.library = table, name, library
        self.size = ctypes.c_size_t.from_address(table).value
        version = (ctypes.c_int * 2).from_address(table + 32)
        self.version = (version[0], version[1])
        if self.version[0] != header.MAJOR:
            raise PjrtError(
                "FAILED_PRECONDITION",
                f"the plugin {name!r} has version {self.version[0]}.{self.version[1]} of the PJRT "
                f"API; weft supports {header.MAJOR}",
            )
        self._functions: dict[str, Any] = {}
        self.kept: list[Any] = []  # what native code points to

    def __repr__(self) -> str:
        return f"Api({self.name}, {self.version[0]}.{self.version[1]})"

    def address(self, function: str) -> int:
        """The address of a function; 0 where the plugin does not have it."""
        at = header.TABLE_HEAD + 8 * NUMBERS[function]
        return 0 if at + 8 > self.size else ctypes.c_size_t.from_address(self.table + at).value

    def has(self, function: str) -> bool:
        return bool(self.address(function))

    def extensions(self) -> dict[str, int]:
        """The addresses of the extensions of the table, by their names."""
        found = {}
        at = ctypes.c_size_t.from_address(self.table + 8).value
        while at:
            kind = ctypes.c_int.from_address(at + 8).value
            known = 0 <= kind < len(header.EXTENSIONS)
            found[header.EXTENSIONS[kind] if known else f"extension {kind}"] = at
            at = ctypes.c_size_t.from_address(at + 16).value
        return found

    def function(self, name: str) -> Any:
        """A function of the table, which takes the address of its struct and returns an error."""
        found = self._functions.get(name)
        if found is None:
            address = self.address(name)
            if not address:
                raise PjrtError(
                    "UNIMPLEMENTED",
                    f"the plugin {self.name!r} has no PJRT_{name}: its version of the PJRT API is"
                    f" {self.version[0]}.{self.version[1]}",
                )
            kind = _SILENT if name in ("Error_Destroy", "Error_Message") else _CALL
            found = self._functions[name] = kind(address)
        return found

    def call(self, name: str, **fields: Any) -> Any:
        """Call a function; its struct, with what the plugin has put there."""
        kind = ARGS[name]
        given = kind(struct_size=kind.SIZE, **fields)
        error = self.function(name)(ctypes.addressof(given))
        if error:
            raise self.error(error)
        return given

    def destroy(self, name: str, **fields: Any) -> None:
        """Free an object of the plugin, but when the process ends: then it is the system's."""
        if not self.end[0]:
            self.call(name, **fields)

    def error(self, error: int) -> PjrtError:
        """An error of the plugin, which is freed."""
        told, code = ARGS["Error_Message"], ARGS["Error_GetCode"]
        message = told(struct_size=told.SIZE, error=error)
        self.function("Error_Message")(ctypes.addressof(message))
        kind = code(struct_size=code.SIZE, error=error)
        self.function("Error_GetCode")(ctypes.addressof(kind))
        text = text_at(message.message, message.message_size)
        freed = ARGS["Error_Destroy"](struct_size=ARGS["Error_Destroy"].SIZE, error=error)
        self.function("Error_Destroy")(ctypes.addressof(freed))
        known = 0 <= kind.code < len(header.ERROR_CODES)
        return PjrtError(header.ERROR_CODES[kind.code] if known else str(kind.code), text)

    def wait(self, event: int) -> None:
        """Wait for an event and free it; raises what it reports."""
        try:
            self.call("Event_Await", event=event)
        finally:
            self.call("Event_Destroy", event=event)

    def is_ready(self, event: int) -> bool:
        """Whether an event has happened; it is freed."""
        try:
            return bool(self.call("Event_IsReady", event=event).is_ready)
        finally:
            self.call("Event_Destroy", event=event)

    def text(self, name: str, field: str, **given: Any) -> str:
        """A text that a function gives with its size."""
        found = self.call(name, **given)
        return text_at(getattr(found, field), getattr(found, f"{field}_size"))


@atexit.register
def _end() -> None:
    Api.end[0] = 1


def text_at(address: int | None, size: int) -> str:
    """A text in the plugin's memory."""
    return bytes_at(address, size).decode(errors="replace")


def bytes_at(address: int | None, size: int) -> bytes:
    """Bytes in the plugin's memory, copied."""
    return ctypes.string_at(address, size) if address and size else b""


def pointers(address: int | None, count: int) -> list[int]:
    """An array of pointers in the plugin's memory."""
    if not address or not count:
        return []
    return list((ctypes.c_size_t * count).from_address(address))


def named_values(address: int | None, count: int) -> dict[str, Any]:
    """Named values in the plugin's memory: texts, integers, lists of them, floats, booleans."""
    if not address or not count:
        return {}
    step = ctypes.c_size_t.from_address(address).value
    step = max(-(-step // 8) * 8, ctypes.sizeof(header.NamedValue))
    found = {}
    for i in range(count):
        value = header.NamedValue.from_address(address + i * step)
        found[text_at(value.name, value.name_size)] = _value(value)
    return found


def _value(value: Any) -> Any:
    word, size = value.value, value.value_size
    if value.type == header.STRING:
        return text_at(word, size)
    if value.type == header.INT64_LIST:
        return list((ctypes.c_int64 * size).from_address(word)) if size else []
    if value.type == header.FLOAT:
        return packing.unpack("f", packing.pack("q", word)[:4])[0]
    return bool(word & 255) if value.type == header.BOOL else word


class Named:
    """Named values for a plugin: ``address`` and ``count`` hold while this object does.

    >>> made = Named({"name": "x", "fraction": 0.5, "sizes": [2, 3], "on": True, "n": 4})
    >>> named_values(made.address, made.count)
    {'name': 'x', 'fraction': 0.5, 'sizes': [2, 3], 'on': True, 'n': 4}
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.count = len(values)
        self._array = (header.NamedValue * max(self.count, 1))()
        self._kept: list[Any] = []
        for row, (name, value) in zip(self._array, values.items(), strict=False):
            row.struct_size = header.NamedValue.SIZE
            row.name, row.name_size = self._text(name)
            row.type, row.value, row.value_size = self._word(name, value)
        self.address = ctypes.addressof(self._array) if self.count else None

    def _text(self, text: str) -> tuple[int, int]:
        held = ctypes.create_string_buffer(text.encode())
        self._kept.append(held)
        return ctypes.addressof(held), len(text.encode())

    def _word(self, name: str, value: Any) -> tuple[int, int, int]:
        if isinstance(value, bool):
            return header.BOOL, int(value), 1
        if isinstance(value, int):
            return header.INT64, value, 1
        if isinstance(value, float):
            return header.FLOAT, packing.unpack("q", packing.pack("f", value) + bytes(4))[0], 1
        if isinstance(value, str):
            return (header.STRING, *self._text(value))
        if isinstance(value, Sequence) and all(type(v) is int for v in value):
            held = (ctypes.c_int64 * len(value))(*value)
            self._kept.append(held)
            return header.INT64_LIST, ctypes.addressof(held), len(value)
        raise TypeError(
            f"the option {name!r} of a PJRT plugin is {value!r}; pass a string, a number, a "
            "boolean or a list of integers"
        )


def load(path: str, name: str) -> Api:
    """A plugin from its shared library."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise PjrtError("NOT_FOUND", f"the plugin {name!r} can't be loaded: {error}") from None
    try:
        get = library.GetPjrtApi
    except AttributeError:
        raise PjrtError(
            "INVALID_ARGUMENT", f"{path} is not a PJRT plugin: it has no function GetPjrtApi"
        ) from None
    get.restype, get.argtypes = ctypes.c_void_p, []
    table = get()
    if not table:
        raise PjrtError("INTERNAL", f"the plugin {name!r} at {path} returns no function table")
    api = Api(table, name, library)
    if api.has("Plugin_Initialize"):
        api.call("Plugin_Initialize")
    return api
