"""Window functions by name, for the spectra of ``scipy.signal``; as NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_COSINES = {
    "hann": (0.5, 0.5),
    "hamming": (0.54, 0.46),
    "blackman": (0.42, 0.5, 0.08),
    "nuttall": (0.3635819, 0.4891775, 0.1365995, 0.0106411),
    "blackmanharris": (0.35875, 0.48829, 0.14128, 0.01168),
    "flattop": (0.21557895, 0.41663158, 0.277263158, 0.083578947, 0.006947368),
}


def general_cosine(n: int, coefficients: Any) -> np.ndarray:
    """A sum of cosines, highest in the middle."""
    angle = np.linspace(-np.pi, np.pi, n)
    total = np.zeros(n)
    for k, c in enumerate(coefficients):
        total += c * np.cos(k * angle)
    return total


def _middle(n: int) -> np.ndarray:
    """Distances from the middle."""
    return np.arange(n) - (n - 1) / 2


def _triang(n: int) -> np.ndarray:
    return 1 - np.abs(2 * _middle(n)) / (n + n % 2)


def _bartlett(n: int) -> np.ndarray:
    return 1 - np.abs(2 * _middle(n)) / (n - 1)


def _parzen(n: int) -> np.ndarray:
    away = np.abs(_middle(n))
    r = away / (n / 2)
    return np.where(away <= (n - 1) / 4, 1 - 6 * r**2 + 6 * r**3, 2 * (1 - r) ** 3)


def _bohman(n: int) -> np.ndarray:
    away = np.abs(np.linspace(-1, 1, n))
    window = (1 - away) * np.cos(np.pi * away) + np.sin(np.pi * away) / np.pi
    window[[0, -1]] = 0
    return window


def _barthann(n: int) -> np.ndarray:
    away = np.abs(_middle(n)) / (n - 1)
    return 0.62 - 0.48 * away + 0.38 * np.cos(2 * np.pi * away)


def _cosine(n: int) -> np.ndarray:
    return np.sin(np.pi / n * (np.arange(n) + 0.5))


def _lanczos(n: int) -> np.ndarray:
    return np.sinc(2 * _middle(n) / (n - 1))


def _exponential(n: int, center: float | None = None, tau: float = 1.0) -> np.ndarray:
    away = _middle(n) if center is None else np.arange(n) - center
    return np.exp(-np.abs(away) / tau)


def _tukey(n: int, alpha: float = 0.5) -> np.ndarray:
    if alpha <= 0:
        return np.ones(n)
    # a cosine lobe over alpha of the window, with a flat top between its halves
    ramp = np.minimum(np.arange(n), np.arange(n)[::-1]) / (n - 1)
    return 0.5 - 0.5 * np.cos(np.pi * np.minimum(2 * ramp / min(alpha, 1.0), 1))


def _gaussian(n: int, std: float) -> np.ndarray:
    return np.exp(-0.5 * (_middle(n) / std) ** 2)


def _general_gaussian(n: int, p: float, sig: float) -> np.ndarray:
    return np.exp(-0.5 * np.abs(_middle(n) / sig) ** (2 * p))


def _general_hamming(n: int, alpha: float) -> np.ndarray:
    return general_cosine(n, (alpha, 1 - alpha))


# A window's names, what makes it, and how many numbers it must be given.
_TABLE: list[tuple[str, Callable[..., np.ndarray], int]] = [
    ("boxcar box ones rect rectangular", np.ones, 0),
    ("triang triangle tri", _triang, 0),
    ("bartlett bart brt", _bartlett, 0),
    ("parzen parz par", _parzen, 0),
    ("bohman bman bmn", _bohman, 0),
    ("barthann brthan bth", _barthann, 0),
    ("cosine halfcosine", _cosine, 0),
    ("lanczos sinc", _lanczos, 0),
    ("exponential poisson", _exponential, 0),
    ("tukey tuk", _tukey, 0),
    ("kaiser ksr", np.kaiser, 1),
    ("gaussian gauss gss", _gaussian, 1),
    ("general_gaussian general_gauss ggs", _general_gaussian, 2),
    ("general_cosine", general_cosine, 1),
    ("general_hamming", _general_hamming, 1),
]
_ALIASES = {
    "hann": "hann han",
    "hamming": "hamming hamm ham",
    "blackman": "blackman black blk",
    "nuttall": "nuttall nutl nut",
    "blackmanharris": "blackmanharris blackharr bkh",
    "flattop": "flattop flat flt",
}
_MAKERS = {name: (make, needed) for names, make, needed in _TABLE for name in names.split()}
_BY_COSINES = {name: _COSINES[kind] for kind, names in _ALIASES.items() for name in names.split()}


def named_window(window: str | tuple[Any, ...], n: int) -> np.ndarray:
    """A window of ``n`` values by its name, or its name and numbers, for a periodic signal.

    >>> named_window("hann", 4)
    array([0. , 0.5, 1. , 0.5])
    """
    name, *numbers = (window,) if isinstance(window, str) else window
    if name in _BY_COSINES:
        return _periodic(general_cosine, n, (_BY_COSINES[name],))
    if name not in _MAKERS:
        known = ", ".join(sorted({*_BY_COSINES, *_MAKERS}))
        raise ValueError(f"no window is named {name!r}; pass its values, or one of {known}")
    make, needed = _MAKERS[name]
    if len(numbers) < needed:
        raise ValueError(f"the window {name!r} needs {needed} parameter(s): ({name!r}, ...)")
    return _periodic(make, n, numbers)


def _periodic(make: Callable[..., np.ndarray], n: int, numbers: Any) -> np.ndarray:
    """A window symmetric over n + 1 values, without the last."""
    if n <= 1:
        return np.ones(n)
    return make(n + 1, *numbers)[:-1]
