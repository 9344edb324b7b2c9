"""What may still change: ``weft.optim.experimental``."""

from weft.optim.experimental import aggregating as aggregating
