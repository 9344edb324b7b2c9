"""For those who extend weft: their own primitives, and programs to walk."""

from weft.extend import core as core
from weft.extend import linear_util as linear_util
