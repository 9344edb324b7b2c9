"""What may still change."""

from weft.api.callbacks import io_callback as io_callback
from weft.dtypes.pairs import primal_tangent_dtype as primal_tangent_dtype
from weft.experimental.hijax.types import cur_qdd as cur_qdd
