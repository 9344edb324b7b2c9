"""Resizing of images: ``weft.image``."""

import sys as _sys

from weft.base.traceback import expose as _expose
from weft.image.resizing import ResizeMethod as ResizeMethod
from weft.image.resizing import resize as resize
from weft.image.resizing import scale_and_translate as scale_and_translate

_expose(_sys.modules[__name__])
