"""The error classes that users catch."""

from weft.base.errors import ConcretizationTypeError as ConcretizationTypeError
from weft.base.errors import InconclusiveDimensionOperation as InconclusiveDimensionOperation
from weft.base.errors import JAXIndexError as JAXIndexError
from weft.base.errors import JaxprTypeError as JaxprTypeError
from weft.base.errors import JaxRuntimeError as JaxRuntimeError
from weft.base.errors import JAXTypeError as JAXTypeError
from weft.base.errors import KeyReuseError as KeyReuseError
from weft.base.errors import NonConcreteBooleanIndexError as NonConcreteBooleanIndexError
from weft.base.errors import RecompileError as RecompileError
from weft.base.errors import TracerArrayConversionError as TracerArrayConversionError
from weft.base.errors import TracerBoolConversionError as TracerBoolConversionError
from weft.base.errors import TracerIntegerConversionError as TracerIntegerConversionError
from weft.base.errors import TransferError as TransferError
from weft.base.errors import UnexpectedTracerError as UnexpectedTracerError
from weft.base.errors import VerificationError as VerificationError
