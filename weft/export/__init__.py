"""Functions kept as programs: staged in one process, written, read and called in another."""

import sys as _sys

from weft.base.traceback import expose as _expose
from weft.export.c_library import CLibrary as CLibrary
from weft.export.c_library import to_c as to_c
from weft.export.exported import DisabledSafetyCheck as DisabledSafetyCheck
from weft.export.exported import Exported as Exported
from weft.export.exported import default_export_platform as default_export_platform
from weft.export.exported import export as export
from weft.export.exported import (
    maximum_supported_calling_convention_version as maximum_supported_calling_convention_version,
)
from weft.export.exported import (
    minimum_supported_calling_convention_version as minimum_supported_calling_convention_version,
)
from weft.export.loading import deserialize as deserialize
from weft.export.reading import MalformedExportError as MalformedExportError
from weft.export.symbolic import SymbolicScope as SymbolicScope
from weft.export.symbolic import is_symbolic_dim as is_symbolic_dim
from weft.export.symbolic import symbolic_args_specs as symbolic_args_specs
from weft.export.symbolic import symbolic_shape as symbolic_shape
from weft.export.trees import register_namedtuple_serialization as register_namedtuple_serialization
from weft.export.trees import (
    register_pytree_node_serialization as register_pytree_node_serialization,
)
from weft.mlir.errors import StableHLOError as StableHLOError
from weft.mlir.function import StableHLOFunction as StableHLOFunction
from weft.mlir.function import from_stablehlo as from_stablehlo

_expose(_sys.modules[__name__])
