"""The ``platform_index`` primitive: which of several lists of platforms names the one in use."""

from __future__ import annotations

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.primitive import Primitive

Platforms = tuple[tuple[str, ...] | None, ...]


class PlatformIndex(Primitive):
    """The position of the first entry that names the platform; None names every platform."""

    name = "platform_index"
    host = "it says which platform runs the program"
    holes = {
        "jvp": "it has no operands",
        "transpose": "it has no operands",
        "batch": "it has no operands",
    }

    def shape(self, *, platforms: Platforms) -> ShapedArray:
        return ShapedArray((), np.int32)

    @staticmethod
    def ref(*, platforms: Platforms) -> np.int32:
        return PlatformIndex.index_of(platforms, "cpu")

    @staticmethod
    def index_of(platforms: Platforms, platform: str) -> np.int32:
        """The position of the first entry that names a platform."""
        for i, names in enumerate(platforms):
            if names is None or platform in names:
                return np.int32(i)
        known = ", ".join(name for names in platforms if names for name in names)
        raise NotImplementedError(
            f"platform_dependent has no branch for platform {platform!r} (it has: {known}); give"
            " one for it, or a default"
        )


platform_index_p = PlatformIndex()
