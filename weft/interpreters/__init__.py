"""Rules of primitives by transformation, as extensions written for JAX register them."""

from weft.interpreters import ad as ad
from weft.interpreters import batching as batching
from weft.interpreters import mlir as mlir
from weft.interpreters import partial_eval as partial_eval
from weft.interpreters import xla as xla
