"""What a GPU did and when, by CUPTI: kernels, copies and fills, those of graphs included."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any

from weft.backends.cuda import libraries
from weft.base.lasting import lasting
from weft.base.record import Record

_U8, _U16, _U32, _U64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
_I32, _PTR, _SIZE = ctypes.c_int32, ctypes.c_void_p, ctypes.c_size_t
# Kinds of activities as cupti_activity.h numbers them; those that are recorded.
_COPY, _FILL, _KERNEL, _ALONE = 1, 2, 10, 3
_KINDS = (_COPY, _FILL, _KERNEL)
_DIRECTIONS = {
    1: "host to device",
    2: "device to host",
    8: "device to device",
    10: "device to device",
}
_BUFFER = 1 << 20


class Activity(Record):
    """Something a GPU did; times in ns of ``time.perf_counter_ns``."""

    kind: str
    name: str
    begin: int
    end: int
    stream: int
    details: dict[str, Any]
    device: int = 0


class _Kernel(ctypes.Structure):
    """What all versions of the record of a kernel begin with."""

    _pack_, _layout_ = 1, "ms"  # from 3.14 on Python wants the second said
    _fields_ = [
        *(("kind", _U32), ("cache", _U8), ("shared_config", _U8), ("registers", _U16)),
        *(("partition", _U64), ("start", _U64), ("end", _U64), ("completed", _U64)),
        *(("device", _U32), ("context", _U32), ("stream", _U32), ("grid", _I32 * 3)),
        *(("block", _I32 * 3), ("static", _I32), ("dynamic", _I32), ("local", _U32)),
        *(("local_total", _U32), ("correlation", _U32), ("grid_id", _U64)),
        ("name", ctypes.c_char_p),
    ]


class _Transfer(ctypes.Structure):
    """What the records of copies and fills begin with."""

    _pack_, _layout_ = 1, "ms"  # from 3.14 on Python wants the second said
    _fields_ = [
        *(("kind", _U32), ("direction", _U8), ("rest", _U8 * 3), ("bytes", _U64)),
        *(("start", _U64), ("end", _U64), ("device", _U32), ("context", _U32), ("stream", _U32)),
    ]


_REQUEST = ctypes.CFUNCTYPE(
    None, ctypes.POINTER(_PTR), ctypes.POINTER(_SIZE), ctypes.POINTER(_SIZE)
)
_COMPLETE = ctypes.CFUNCTYPE(None, _PTR, _U32, _PTR, _SIZE, _SIZE)


class Recorder:
    """Activities since `start`, given by `stop`."""

    def __init__(self) -> None:
        self._library = libraries.library("cupti")
        self._buffers: dict[int, Any] = {}
        self._found: list[Activity] = []
        self._lock = threading.Lock()
        self._shift = 0
        # CUPTI calls these, and writes to buffers that it has asked for, until the process ends
        self._request, self._complete = _REQUEST(self._give), _COMPLETE(self._take)
        lasting(self)
        self._call("cuptiActivityRegisterCallbacks", self._request, self._complete)

    def _call(self, name: str, *args: Any) -> None:
        libraries.check(getattr(self._library, name)(*args), name)

    def start(self) -> None:
        self._found.clear()
        stamp = _U64()
        self._call("cuptiGetTimestamp", ctypes.byref(stamp))
        self._shift = time.perf_counter_ns() - stamp.value
        for kind in _KINDS:
            self._call("cuptiActivityEnable", kind)

    def stop(self) -> list[Activity]:
        """What was done, in the order of its beginning; the device has finished it."""
        self._call("cuptiActivityFlushAll", 1)
        for kind in _KINDS:
            self._call("cuptiActivityDisable", kind)
        self._call("cuptiActivityFlushAll", 1)
        with self._lock:
            return sorted(self._found, key=lambda a: a.begin)

    def _give(self, buffer: Any, size: Any, most: Any) -> None:
        own = ctypes.create_string_buffer(_BUFFER + 8)
        address = ctypes.addressof(own) + 7 & ~7
        self._buffers[address] = own
        buffer[0], size[0], most[0] = address, _BUFFER, 0

    def _take(self, context: Any, stream: int, buffer: int, size: int, valid: int) -> None:
        record = _PTR()
        step = self._library.cuptiActivityGetNextRecord
        while not step(_PTR(buffer), _SIZE(valid), ctypes.byref(record)):
            assert record.value is not None
            found = self._activity(record.value)
            if found is not None:
                with self._lock:
                    self._found.append(found)
        self._buffers.pop(buffer, None)

    def _activity(self, address: int) -> Activity | None:
        kind = _U32.from_address(address).value
        if kind in (_KERNEL, _ALONE):
            k = _Kernel.from_address(address)
            details: dict[str, Any] = {
                "blocks": " x ".join(str(n) for n in k.grid),
                "threads": k.block[0] * k.block[1] * k.block[2],
                "registers": k.registers,
                "shared": k.static + k.dynamic,
            }
            name = (k.name or b"kernel").decode(errors="replace")
            begin, end, stream, kind_ = k.start, k.end, k.stream, "kernel"
            device = k.device
        elif kind in (_COPY, _FILL):
            t = _Transfer.from_address(address)
            kind_ = "copy" if kind == _COPY else "fill"
            where = _DIRECTIONS.get(t.direction, "") if kind == _COPY else ""
            name = f"{kind_} {where}".strip()
            details = {"bytes": t.bytes}
            begin, end, stream, device = t.start, t.end, t.stream, t.device
        else:
            return None
        times = begin + self._shift, end + self._shift
        return Activity(kind_, name, *times, stream, details, device)
