"""Space: ``weft.scipy.spatial``."""

from weft.scipy.spatial import transform as transform
