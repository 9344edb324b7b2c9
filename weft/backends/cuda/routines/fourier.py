"""Fourier transforms by cuFFT."""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

from weft.backends.cuda import libraries
from weft.backends.cuda.driver import per_device
from weft.backends.cuda.routines.base import (
    ROUTINES,
    Library,
    Move,
    Place,
    Routine,
    given,
    launch,
    made,
    scratch,
)
from weft.backends.cuda.routines.moves import permute
from weft.backends.cuda.routines.stubs import fourier_stubs as stubs
from weft.kernel.kinds import kind_of
from weft.kernel.program import Type

_PTR = ctypes.c_void_p
# Kinds of transforms as cufft.h numbers them, by whether numbers are of 64 bits.
_COMPLEX, _FROM_REAL, _TO_REAL = (0x29, 0x69), (0x2A, 0x6A), (0x2C, 0x6C)
_FORWARD, _INVERSE = -1, 1


@per_device(128)
def _plan(lengths: tuple[int, ...], kind: int, batch: int) -> libraries.Begun:
    """A plan for contiguous arrays, which is made while the program is compiled."""
    return libraries.beside("cufft", lambda: _made(lengths, kind, batch))


def _made(lengths: tuple[int, ...], kind: int, batch: int) -> Any:
    found = ctypes.c_int()
    numbers = (ctypes.c_int * len(lengths))(*lengths)
    plan = libraries.library("cufft").cufftPlanMany
    rank = len(lengths)
    status = plan(ctypes.byref(found), rank, numbers, None, 1, 0, None, 1, 0, kind, batch)
    libraries.check(status, "cufftPlanMany")
    return found


def _runner(name: str, plan: libraries.Begun, direction: int | None) -> Any:
    library = libraries.library("cufft")

    def run(stream: Any, source: int, target: int) -> None:
        own = plan()
        libraries.check(library.cufftSetStream(own, stream), "cufftSetStream")
        more = () if direction is None else (direction,)
        libraries.check(getattr(library, name)(own, _PTR(source), _PTR(target), *more), name)

    return run


def fft(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Routine | None:
    """A transform of the last axes, or of one axis."""
    (x,), (out,) = ins, outs
    lengths, axis = tuple(params["fft_lengths"]), params.get("axis")
    name = params["fft_type"].name
    if not libraries.has("cufft") or len(lengths) > 3 or not prod(x.shape) or not lengths:
        return None
    wide = int(x.dtype.itemsize == (8 if x.dtype.kind == "f" else 16))
    steps: list[Any] = []
    rooms: list[int] = []
    source, target = given(0), made(0)
    order: tuple[int, ...] | None = None
    if axis is not None and axis != len(x.shape) - 1:
        order = (*(i for i in range(len(x.shape)) if i != axis), axis)
        size = prod(x.shape) * x.dtype.itemsize
        rooms = [size, size]
        source, target = scratch(0), scratch(1)
        steps.append((permute(x.shape, order, x.dtype.itemsize), (given(0), source)))
        lengths = (x.shape[axis],)
    batch = prod(x.shape[: len(x.shape) - len(lengths)]) if order is None else 0
    batch = batch if order is None else prod(x.shape) // lengths[0]
    if name == "RFFT":
        plan, call, direction = _plan(lengths, _FROM_REAL[wide], batch), "R2C D2Z", None
    elif name == "IRFFT":
        last = batch * prod(lengths[:-1])
        plan, call, direction = _plan(lengths[-1:], _TO_REAL[wide], last), "C2R Z2D", None
        source, more, rooms = _outer_axes(x, lengths, wide)
        steps += more
    else:
        plan, call = _plan(lengths, _COMPLEX[wide], batch), "C2C Z2Z"
        direction = _FORWARD if name == "FFT" else _INVERSE
    function = f"cufftExec{call.split()[wide]}"
    steps.append(Library(_runner(function, plan, direction), (source, target), function))
    if name in ("IFFT", "IRFFT"):
        real = np.dtype(np.float64 if wide else np.float32)
        count = prod(out.shape) * (2 if out.dtype.kind == "c" else 1)
        names = {"C": kind_of(real), "COUNT": count, "FACTOR": float(real.type(1 / prod(lengths)))}
        steps.append(launch(stubs.scale, count, (target,), **names))
    if order is not None:
        moved = tuple(x.shape[i] for i in order)
        back = tuple(order.index(i) for i in range(len(order)))
        steps.append((permute(moved, back, x.dtype.itemsize), (target, made(0))))
    return Routine(steps, tuple(rooms))


def _outer_axes(x: Type, lengths: tuple[int, ...], wide: int) -> tuple[Place, list[Any], list[int]]:
    """Where the operand of an inverse transform to real numbers is after all but its last axis.

    The library takes for granted that the spectrum is Hermitian in its outer axes too, which NumPy
    does not: these have a complex transform of their own. It writes over what it reads.
    """
    size = prod(x.shape) * x.dtype.itemsize
    outer, batch = lengths[:-1], prod(x.shape[: len(x.shape) - len(lengths)])
    if prod(outer) == 1:
        return scratch(0), [Move(scratch(0), given(0), size)], [size]
    shape = (batch, prod(outer), x.shape[-1])
    turned = (batch, x.shape[-1], prod(outer))
    plan = _plan(outer, _COMPLEX[wide], batch * x.shape[-1])
    function = f"cufftExec{'C2C Z2Z'.split()[wide]}"
    steps = [
        (permute(shape, (0, 2, 1), x.dtype.itemsize), (given(0), scratch(0))),
        Library(_runner(function, plan, _INVERSE), (scratch(0), scratch(1)), function),
        (permute(turned, (0, 2, 1), x.dtype.itemsize), (scratch(1), scratch(0))),
    ]
    return scratch(0), steps, [size, size]


ROUTINES["fft"] = fft
