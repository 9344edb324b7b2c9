"""Convolutions of any kind as a stub, a thread for each element of the result, or for a part of the
window of each where results are few and windows large, as in gradients by filters.

The table has ten numbers for each axis of space, the last one first: results, elements of the
kernel, stride, padding before, dilation of the operand and of the kernel, elements, and strides in
the operand, the kernel and the result.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cuda.routines.device import block, thread
from weft.backends.cuda.routines.stubs.elements import get, put, strided
from weft.backends.cuda.routines.stubs.window_stubs import place
from weft.kernel.kinds import f32, i64, ptr, static, void

# Kinds that the stubs are given.
C: Any = f32


def convolve(
    x: ptr,
    w: ptr,
    table: ptr,
    out: ptr,
    *,
    RANK: static,
    COUNT: static,
    WINDOW: static,
    CHANNELS: static,
    FEATURES: static,
    GROUP: static,
    BATCHES: static,
    BATCH_GROUP: static,
    PARTS: static,
    STEP: static,
    FEATURES_FIRST: static,
    X_BATCH: static,
    X_CHANNEL: static,
    W_CHANNEL: static,
    W_FEATURE: static,
    O_BATCH: static,
    O_FEATURE: static,
) -> void:
    """``GROUP`` features, of ``CHANNELS`` channels each, make a group."""
    whole = block() * 256 + thread()
    results = i64(BATCHES) * FEATURES * COUNT
    if whole < results * PARTS:
        part = whole // results
        number = whole % results
        o = number % COUNT
        feature = number // COUNT % FEATURES
        batch = number // COUNT // FEATURES
        if FEATURES_FIRST == 1:
            o = number // FEATURES % COUNT
            feature = number % FEATURES
        first = feature // GROUP * CHANNELS
        rows = batch
        if BATCH_GROUP > 0:
            rows = feature // BATCH_GROUP * BATCHES + batch
            first = i64(0)
        total = C(0)
        for k in range(part * STEP, min(part * STEP + STEP, i64(WINDOW))):
            at = place(table, o, k)
            if at >= 0:
                own = strided(table, RANK, 10, k, 1, 8) + feature * W_FEATURE
                at = at + rows * X_BATCH + first * X_CHANNEL
                for c in range(CHANNELS):
                    total = total + get(x, at + c * X_CHANNEL) * get(w, own + c * W_CHANNEL)
        at = strided(table, RANK, 10, o, 0, 9) + batch * O_BATCH + feature * O_FEATURE
        if PARTS == 1:
            put(out, at, total)
        else:
            C[out, part * results + at] = total


def add_parts(parts: ptr, out: ptr, *, COUNT: static, PARTS: static) -> void:
    """The sums of what all parts of windows give."""
    number = block() * 256 + thread()
    if number < COUNT:
        total = C(0)
        for k in range(PARTS):
            total = total + C[parts, i64(k) * COUNT + number]
        put(out, number, total)
