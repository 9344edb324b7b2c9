"""For those who extend weft: their own primitives, and programs to walk."""

from weft.extend import backend as backend
from weft.extend import core as core
from weft.extend import linear_util as linear_util
from weft.extend import random as random
from weft.extend import source_info_util as source_info_util
