"""The GPUs of this machine as clients."""

from __future__ import annotations

from typing import Any

from weft.backends.cuda import driver
from weft.backends.cuda.gpu import Gpu
from weft.base import knobs
from weft.base.lazy import Late

# loaded where arrays are over several GPUs
spread = Late("weft.backends.cuda.spread")


def _over(sharding: Any) -> Any:
    return spread.client_over(sharding)


def gpu(number: int) -> Gpu:
    """The client of a GPU."""
    return Gpu(number, _over)


def clients() -> list[Gpu]:
    """A client for each GPU that the knob ``cuda_visible_devices`` lets be seen."""
    driver.library()  # which says what is wrong with it
    count = driver.count()
    if not count:
        raise driver.DriverError("the CUDA driver finds no GPU")
    visible = knobs.cuda_visible_devices.value
    known = {str(n): n for n in range(count)}
    wanted = list(known) if visible == "all" else [n.strip() for n in visible.split(",")]
    strange = [n for n in wanted if n not in known]
    if strange:
        raise ValueError(
            f"cuda_visible_devices names {strange[0]!r}; the GPUs here are numbered 0 to "
            f"{count - 1}; write 'all', or numbers separated by commas"
        )
    return [gpu(known[n]) for n in wanted]
