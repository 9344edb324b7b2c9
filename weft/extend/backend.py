"""The backends there are, as extensions written for JAX ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.base.functional import clear_all_caches as clear_in_memory_compilation_cache
from weft.base.functional import register_cache
from weft.runtime import devices as _devices

__all__ = [
    "Backend", "backend_xla_version", "backends", "clear_backends",
    "clear_in_memory_compilation_cache", "get_backend", "get_default_device",
    "register_backend_cache",
]  # fmt: skip


class Backend:
    """The devices of one platform.

    Args:
        platform: the name of the platform.

    Example:
        >>> from weft.extend.backend import get_backend
        >>> get_backend("cpu").platform
        'cpu'
    """

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.platform_version = f"weft {platform}"
        self.runtime_type = "weft"

    def devices(self) -> list[Any]:
        """All devices."""
        return _devices.devices(self.platform)

    def local_devices(self) -> list[Any]:
        """The devices of this process."""
        return _devices.local_devices(backend=self.platform)

    def device_count(self) -> int:
        """How many devices there are."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """How many of them are of this process."""
        return len(self.local_devices())

    def process_index(self) -> int:
        """The number of this process."""
        return _devices.process_index()

    host_id = task_id = process_index

    def __repr__(self) -> str:
        return f"<weft backend {self.platform}>"


_made: dict[str, Backend] = {}


def get_backend(platform: Any = None) -> Backend:
    """Return the backend of a platform, or the default one.

    Args:
        platform: the name of the platform. By default the first one.

    Returns:
        A ``Backend``.

    Example:
        >>> get_backend().platform
        'cpu'
    """
    if isinstance(platform, Backend):
        return platform
    name = _devices.default_backend() if platform is None else platform
    _devices.devices(name)  # which says that there is none
    return _made.setdefault(name, Backend(name))


def backend_xla_version(platform: Any = None) -> int | None:
    """Return the version of XLA that a backend is made with: None, as there is no XLA here.

    Args:
        platform: the name of the platform. By default the first one.

    Returns:
        None.

    Example:
        >>> backend_xla_version()
    """
    get_backend(platform)  # which raises for a platform that there is not
    return None


def backends() -> dict[str, Backend]:
    """Return all backends by platform.

    Returns:
        A dictionary.

    Example:
        >>> list(backends())
        ['cpu']
    """
    return {name: get_backend(name) for name in {_devices.default_backend(), "cpu"}}


def get_default_device() -> Any:
    """Return the device that arrays are made on.

    Returns:
        A device.

    Example:
        >>> get_default_device() in get_backend().devices()
        True
    """
    return _devices.default_device()


class _Clearing:
    def __init__(self, clear: Callable[[], None]) -> None:
        self.cache_clear = clear


_registered: list[_Clearing] = []


def register_backend_cache(cache: Any, for_what: str) -> None:
    """Call ``cache.cache_clear()`` when all caches are cleared.

    Args:
        cache: an object with that method.
        for_what: what it caches, for people.

    Example:
        >>> import functools
        >>> register_backend_cache(functools.lru_cache(len), "lengths")
    """
    held = _Clearing(cache.cache_clear)
    _registered.append(held)
    register_cache(held)


def clear_backends() -> None:
    """Forget everything compiled; devices stay as they are.

    >>> clear_backends()
    """
    clear_in_memory_compilation_cache()
