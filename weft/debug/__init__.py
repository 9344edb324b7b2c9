"""Looking into staged programs: printing, callbacks, breakpoints, shardings."""

from weft.control.callbacks import DebugEffect as DebugEffect
from weft.control.callbacks import OrderedDebugEffect as OrderedDebugEffect
from weft.debug.debugger import breakpoint as breakpoint
from weft.debug.printing import callback as callback
from weft.debug.printing import log as log
from weft.debug.printing import print as print
from weft.debug.shardings import inspect_array_sharding as inspect_array_sharding
from weft.debug.shardings import visualize_array_sharding as visualize_array_sharding
from weft.debug.shardings import visualize_sharding as visualize_sharding
