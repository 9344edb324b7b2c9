"""Reductions over segments of an array."""

import sys as _sys

from weft.base.traceback import expose as _expose
from weft.ops.segments import segment_max as segment_max
from weft.ops.segments import segment_min as segment_min
from weft.ops.segments import segment_prod as segment_prod
from weft.ops.segments import segment_sum as segment_sum

_expose(_sys.modules[__name__])
