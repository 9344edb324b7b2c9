"""Clustering: ``weft.scipy.cluster``."""

from weft.scipy.cluster import vq as vq
