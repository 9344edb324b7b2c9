"""``jax.ffi``: what can be done without XLA, and errors that say what cannot.

Handlers may be registered, as libraries do when they are imported. weft does not call them.
"""

from __future__ import annotations

import ctypes
from typing import Any, NoReturn

from weft.runtime.devices import default_backend

_targets: dict[tuple[str, str], Any] = {}


def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Remember a handler written for XLA's interface; ``ffi_call`` names it in its error."""
    _targets[name, platform] = fn


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Remember the identifier of a type of handlers."""
    _targets[name, platform] = obj


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Remember a type of handlers."""
    _targets[name, platform] = type_registration


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Nothing to do: weft calls no handlers, so it divides no calls among devices."""


def pycapsule(funcptr: Any) -> Any:
    """A function of ctypes, or its address, as a PyCapsule.

    >>> type(pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
    'PyCapsule'
    """
    destructor = ctypes.CFUNCTYPE(None, ctypes.py_object)
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, destructor)
    return make(ctypes.cast(funcptr, ctypes.c_void_p), None, destructor(0))


def ffi_call(target_name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """A call of a handler written for XLA's interface, which weft does not have."""
    known = any(name == target_name for name, _ in _targets)
    raise RuntimeError(
        f"jax.ffi.ffi_call of {target_name!r}: weft on {default_backend()!r} does not call XLA "
        f"handlers ({target_name!r} is {'' if known else 'not '}registered); call the library "
        "with ctypes inside jax.pure_callback, or write the function with jax.numpy"
    )


def ffi_lowering(call_target_name: str, **kwargs: Any) -> NoReturn:
    """A lowering that calls a handler of XLA, which weft does not have."""
    raise RuntimeError(
        f"jax.ffi.ffi_lowering of {call_target_name!r}: weft has no MLIR to emit a call into;"
        " give the primitive a lowering made by mlir.lower_fun"
    )


build_ffi_lowering_function = ffi_lowering


def include_dir() -> NoReturn:
    """The folder of XLA's headers, which weft does not have."""
    raise RuntimeError(
        "jax.ffi.include_dir: weft has no XLA headers; build the handler with those of jaxlib"
    )
