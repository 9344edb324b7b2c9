"""All checks of the array API standard, how weft.numpy is run through them, and its exceptions."""

import contextlib
import importlib
import sys
from fnmatch import fnmatchcase
from typing import Any

from tests.array_api import arrays, extensions, functions
from tests.array_api.suite import Suite, find_library, run

# Checks that weft.numpy fails, as JAX does, and why. JAX's behaviour is the contract where the two
# differ in what a program can rely on.
EXCEPTIONS: dict[str, str] = {
    "index/setitem": "arrays are immutable; x.at[...].set(...) gives a changed copy",
    "signature/expand_dims": "axis has no default, as in NumPy and JAX",
    "limits/float32": "finfo holds NumPy scalars, which are no Python floats in 32 bits",
    "limits/complex64": "finfo holds NumPy scalars, which are no Python floats in 32 bits",
    "statistics/cumulative_prod/*": "small integers are not widened, as in JAX",
    "searching/searchsorted*": "places are int32 as long as they fit, as in JAX",
    "special/floor_divide/*": "the sign of a zero quotient is that of JAX",
    "special/__floordiv__/*": "the sign of a zero quotient is that of JAX",
    "special/remainder/*": "the sign of a zero remainder is that of JAX",
    "special/__mod__/*": "the sign of a zero remainder is that of JAX",
    "conjugate/acos/*/0 +0": "-0 counts as +0 on the branch cut, as in JAX",
    "conjugate/acosh/*/0 +0": "-0 counts as +0 on the branch cut, as in JAX",
}


def excuse(name: str) -> str | None:
    """Why a check is allowed to fail, or None where it is not."""
    return next((why for key, why in EXCEPTIONS.items() if fnmatchcase(name, key)), None)


def build() -> Suite:
    """Every check there is."""
    suite = Suite()
    functions.add_names(suite)
    functions.add_elementwise(suite)
    functions.add_promotion(suite)
    functions.add_special(suite)
    arrays.add_all(suite)
    extensions.add_all(suite)
    return suite


def _in_64_bits(library: str) -> contextlib.AbstractContextManager[Any]:
    root = library.partition(".")[0]
    importlib.import_module(library)
    if not hasattr(sys.modules[root], "enable_x64"):
        return contextlib.nullcontext()
    return sys.modules[root].enable_x64(True)


def report(
    library: str = "weft.numpy", only: str = "", again: bool = True
) -> dict[int, tuple[int, dict[str, str]]]:
    """By width of the default dtypes: the number of checks, and the errors of those that failed.

    With 64 bits what was checked of the narrow dtypes is checked ``again``, or left out.
    """
    suite = build()
    found = {}
    narrow = find_library(library)
    if not narrow.wide:
        found[32] = run(suite, narrow, only)
    with _in_64_bits(library):
        done = () if narrow.wide or again else tuple(narrow.dtypes)
        found[64] = run(suite, find_library(library), only, done)
    return found
