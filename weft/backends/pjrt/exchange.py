"""How the processes of a plugin find each other: functions of a store that the plugin calls."""

from __future__ import annotations

import ctypes
from typing import Any

from weft.backends.pjrt import header
from weft.backends.pjrt.api import bytes_at

_CALL = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Exchange:
    """The callbacks of ``PJRT_Client_Create`` for values that all processes see.

    ``store`` has ``get(key, limit_ms)``, ``try_get(key)`` and ``put(key, value)``. ``fields`` are
    the callbacks, by their names in the struct. Keep this object as long as the client.
    """

    def __init__(self, store: Any) -> None:
        self.store = store
        self._values: dict[
            int, Any
        ] = {}  # given to the plugin, until it says that it has read them
        self._delete = _DELETE(self._forget)
        tasks = {
            "kv_get_callback": (header.GetArgs, self._get),
            "kv_try_get_callback": (header.TryGetArgs, self._try_get),
            "kv_put_callback": (header.PutArgs, self._put),
        }
        self._functions = {name: _CALL(_checked(*row)) for name, row in tasks.items()}
        self.fields = {
            name: ctypes.cast(function, ctypes.c_void_p).value
            for name, function in self._functions.items()
        }

    def _get(self, args: Any) -> None:
        key = bytes_at(args.key, args.key_size)
        self._give(args, self.store.get(key, args.timeout_in_ms))

    def _try_get(self, args: Any) -> None:
        key = bytes_at(args.key, args.key_size)
        found = self.store.try_get(key)
        if found is None:
            raise KeyError(f"nobody has set {key.decode(errors='replace')!r} yet")
        self._give(args, found)

    def _put(self, args: Any) -> None:
        key, value = bytes_at(args.key, args.key_size), bytes_at(args.value, args.value_size)
        self.store.put(key, value)

    def _give(self, args: Any, value: bytes) -> None:
        held = ctypes.create_string_buffer(value, max(len(value), 1))
        args.value, args.value_size = ctypes.addressof(held), len(value)
        args.value_deleter_callback = ctypes.cast(self._delete, ctypes.c_void_p).value
        self._values[args.value] = held

    def _forget(self, address: int) -> None:
        self._values.pop(address, None)


def _checked(kind: Any, function: Any) -> Any:
    """A callback that reports what it raises as an error of the plugin's own."""

    def called(address: int) -> int | None:
        args = kind.from_address(address)
        try:
            function(args)
        except Exception as error:
            codes = {KeyError: "NOT_FOUND", TimeoutError: "DEADLINE_EXCEEDED"}
            code = header.ERROR_CODES.index(codes.get(type(error), "UNAVAILABLE"))
            text = str(error.args[0] if error.args else error).encode()
            held = ctypes.create_string_buffer(text, max(len(text), 1))
            # a pointer to a pointer to a function
            make = ctypes.c_void_p.from_address(args.callback_error).value
            assert make is not None
            return _ERROR(make)(code, ctypes.addressof(held), len(text))
        return None

    return called
