"""What kernels that go over data once are given: texts of stubs for vectors of one kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.backends.cpu.routines.fourier.fft_text import Lanes, roots
from weft.backends.llvm.text.stub import translate_main
from weft.base.functional import lru
from weft.kernel.kinds import kind_of


def lane_factors(v: Lanes, n: int) -> np.ndarray:
    """The first powers of exp(-pi i / n), split."""
    lanes = roots(np.arange(v.count), 2 * n)
    return np.stack([lanes.real, lanes.imag]).astype(v.real)


@lru(64)
def text(stub: Any, itemsize: int, bits: int, more: tuple[tuple[str, int], ...]) -> str:
    """The text of a stub."""
    v = Lanes(itemsize, bits)
    kind, n = kind_of(v.real), v.count
    names = {"F": kind, "V": kind.of(n), "PAIR": kind.of(2), "LANES": n, **dict(more)}
    names |= {"ITEM": itemsize, "BYTES": v.bytes, "ELEMENT": v.element, "ROW": v.row}
    for word, order in (("", 1), ("_BACK", -1)):
        picks = [i + part for i in range(n)[::order] for part in (0, n)]
        names[f"APART{word}"] = [(part, [*range(part, 2 * n, 2)][::order]) for part in (0, 1)]
        names[f"TOGETHER{word}"] = [(part, picks[part * n :][:n]) for part in (0, 1)]
    return translate_main(stub, names, loop=True)
