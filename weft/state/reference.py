"""The truth about indices into references: NumPy arrays read and written element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.state.indexing import NDIndexer, Reshaped, Slice, Step


def positions(indexer: NDIndexer, keep: bool) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """For every element of the part, where it is along each axis, and whether it is there.

    Blocks are moved inside as a whole, and so are single positions; of arrays, what is out of
    bounds is not there, unless ``keep`` says to take the nearest.
    """
    fancy = [k for k, e in enumerate(indexer.indices) if type(e) is not Slice]
    lead = np.broadcast_shapes(*(np.shape(indexer.indices[k]) for k in fancy))
    together = bool(lead) and fancy == list(range(fancy[0], fancy[-1] + 1))
    first = fancy[0] if together else 0  # where the axes of arrays begin in the part
    result = indexer.result_shape
    there = np.ones(result, np.bool_)
    found, slices = [], 0
    for entry, size in zip(indexer.indices, indexer.shape, strict=True):
        shape = [1] * len(result)
        if type(entry) is Slice:
            shape[slices + (len(lead) if slices >= first else 0)] = entry.size
            slices += 1
            place, inside = _of_slice(entry, size, keep)
        else:
            shape[first : first + len(lead)] = lead
            place = np.broadcast_to(np.asarray(entry), lead)
            place = np.where(place < 0, place + size, place)
            inside = (place >= 0) & (place < size) | (keep or not lead)
        found.append(np.broadcast_to(np.clip(place, 0, size - 1).reshape(shape), result))
        there &= inside.reshape(shape)
    return tuple(found), there


def _of_slice(entry: Slice, size: int, keep: bool) -> tuple[np.ndarray, np.ndarray]:
    start = int(entry.start)
    start = start + size if start < 0 else start
    if entry.stride == 1:
        start = min(max(start, 0), size - entry.size)
    place = start + entry.stride * np.arange(entry.size)
    return place, (place >= 0) & (place < size) | keep


def read(x: np.ndarray, transforms: tuple[Step, ...]) -> np.ndarray:
    for indexer in transforms:
        if type(indexer) is Reshaped:
            x = x.reshape(indexer.result_shape)
            continue
        assert type(indexer) is NDIndexer
        x = x[positions(indexer, True)[0]]
    return x


def write(x: np.ndarray, transforms: Any, value: np.ndarray, add: bool) -> np.ndarray:
    """A copy with another part, or with something added to it."""
    if not transforms:
        return x + value if add else np.array(value)
    first, *rest = transforms
    if type(first) is Reshaped:
        return write(x.reshape(first.result_shape), rest, value, add).reshape(first.shape)
    blocks = not any(indexer.has_arrays for indexer in transforms)
    if rest:
        value, add = write(read(x, (first,)), rest, value, add), False
    where, there = positions(first, False)
    out = x.copy()
    picked = tuple(p[there] for p in where)
    part = np.broadcast_to(value, first.result_shape)[there]
    if add and blocks:
        out[picked] = (out[picked] + part).astype(x.dtype)
    elif add:
        np.add.at(out, picked, part)
    else:
        for element in np.ndindex(part.shape[:1]):  # the last of several to one place stays
            out[tuple(p[element] for p in picked)] = part[element]
    return out
