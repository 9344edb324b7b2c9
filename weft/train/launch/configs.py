"""Configurations of runs as JSON: what a run is given, written so that a worker can rebuild it."""

import dataclasses
import enum
import hashlib
import inspect
import json
import math
import os
import pathlib
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from weft.train.launch.worker import LaunchError, decode

_ALLOWED = (
    "numbers, text, lists, tuples, dictionaries, paths, dataclasses, members of enumerations, "
    "and functions and classes of modules"
)


@dataclasses.dataclass(frozen=True)
class Gin:
    """A configuration by gin: files, and bindings that come after them.

    The worker parses both before it calls the function, which receives only its ``Run``: whatever
    is ``gin.configurable`` takes the rest from gin. A file that was edited makes a new run.

    Args:
        bindings: lines as in a file of gin.
        files: paths of ``.gin`` files.

    Example:
        >>> Gin(["train.rate = 0.1", "Dense.features = 32"]).bindings
        ('train.rate = 0.1', 'Dense.features = 32')
        >>> Gin.from_dict({"train.rate": 0.1, "train.name": "a"}).bindings
        ('train.rate = 0.1', "train.name = 'a'")
    """

    bindings: Sequence[str] = ()
    files: Sequence[str | os.PathLike[str]] = ()

    def __post_init__(self) -> None:
        for name in ("bindings", "files"):
            if isinstance(getattr(self, name), (str, bytes, os.PathLike)):
                raise TypeError(f"Gin({name}=...) takes a list: write [{getattr(self, name)!r}]")
            object.__setattr__(self, name, tuple(getattr(self, name)))

    @classmethod
    def from_dict(
        cls, bindings: Mapping[str, Any], files: Sequence[str | os.PathLike[str]] = ()
    ) -> "Gin":
        """Bindings from names and values: a configuration of a sweep.

        Args:
            bindings: values by what they are bound to, as ``"train.rate"``.
            files: paths of ``.gin`` files.

        Example:
            >>> Gin.from_dict({"Dense.features": 8})
            Gin(bindings=('Dense.features = 8',), files=())
        """
        return cls([f"{name} = {value!r}" for name, value in bindings.items()], files)


def importable_name(value: Any, place: str) -> str:
    """The name by which a worker can import a function or a class.

    >>> importable_name(json.dumps, "function")
    'json:dumps'
    """
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "<")
    if not module or "<" in name or inspect.ismethod(value):
        raise TypeError(
            f"{place} is {value!r}, which a worker cannot import: define it at the top of a module"
        )
    if module == "__main__":
        spec = getattr(sys.modules["__main__"], "__spec__", None)
        if spec is not None and spec.name:
            module = spec.name
        elif main_file() is None:
            raise LaunchError(
                f"{place} is {name}, typed at a prompt or in a notebook, where a worker cannot find"
                " it: put it in a file and import it"
            )
    return f"{module}:{name}"


def main_file() -> str | None:
    """The script that this process runs, if it is one that a worker can run too."""
    main = sys.modules.get("__main__")
    if main is None or getattr(main, "__spec__", None) is not None:
        return None
    file = getattr(main, "__file__", None)
    return os.path.abspath(file) if file and os.path.isfile(file) else None


def encode(value: Any, place: str = "args") -> Any:
    """A configuration in the JSON form that ``decode`` reads.

    >>> encode({"shape": (2, 3), "rate": 0.5})
    {'shape': {'$tuple': [2, 3]}, 'rate': 0.5}
    >>> encode({"model": object()})
    Traceback (most recent call last):
        ...
    TypeError: args['model'] is an object, which a configuration cannot hold. It can hold numbers,
    text, lists, tuples, dictionaries, paths, dataclasses, members of enumerations, and functions
    and classes of modules
    """
    if isinstance(value, enum.Enum):
        return {"$enum": f"{importable_name(type(value), place)}.{value.name}"}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": str(float(value))}
    if isinstance(value, list):
        return [encode(inner, f"{place}[{i}]") for i, inner in enumerate(value)]
    if isinstance(value, tuple):
        return {"$tuple": [encode(inner, f"{place}[{i}]") for i, inner in enumerate(value)]}
    if isinstance(value, Mapping):
        return {_key(key, place): encode(item, f"{place}[{key!r}]") for key, item in value.items()}
    if isinstance(value, pathlib.PurePath):
        return {"$path": str(value)}
    if isinstance(value, Gin):
        return {"$gin": {"files": [_file(path) for path in value.files], "bindings": _lines(value)}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value) if field.init]
        inner = {name: encode(getattr(value, name), f"{place}.{name}") for name in fields}
        return {"$dataclass": importable_name(type(value), place), "fields": inner}
    if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return {"$name": importable_name(value, place)}
    if hasattr(value, "tolist") and getattr(value, "shape", None) == ():
        return encode(value.tolist(), place)
    raise TypeError(
        f"{place} is an {type(value).__name__}, which a configuration cannot hold. It can hold"
        f" {_ALLOWED}"
    )


def _key(key: Any, place: str) -> str:
    if not isinstance(key, str) or key.startswith("$"):
        raise TypeError(
            f"{place} has the key {key!r}: keys must be strings that do not start with '$'"
        )
    return key


def _file(path: str | os.PathLike[str]) -> dict[str, str]:
    whole = os.path.abspath(path)
    try:
        content = pathlib.Path(whole).read_bytes()
    except OSError as error:
        raise LaunchError(f"the gin file {whole} cannot be read: {error.strerror}") from None
    return {"path": whole, "sha256": hashlib.sha256(content).hexdigest()}


def _lines(gin: Gin) -> list[str]:
    for line in gin.bindings:
        if not isinstance(line, str) or "=" not in line:
            raise ValueError(f"{line!r} is not a gin binding; write 'name.parameter = value'")
    return list(gin.bindings)


def encode_args(args: Any) -> Any:
    """The JSON form of what a work unit is given: a dictionary, a dataclass, or ``Gin``."""
    if args is None:
        return {}
    if isinstance(args, Mapping):
        for name in args:
            if not isinstance(name, str) or not name.isidentifier():
                raise TypeError(
                    f"args are passed by keyword, and {name!r} is not one. Pass gin's bindings by"
                    " launch.Gin.from_dict"
                )
        return encode(args)
    if isinstance(args, Gin) or (dataclasses.is_dataclass(args) and not isinstance(args, type)):
        return encode(args)
    raise TypeError(f"args must be a dictionary, a dataclass or launch.Gin, not {args!r}")


def key_of(executable: Mapping[str, Any], args: Any, identity: str) -> str:
    """What makes a work unit the same when an experiment is launched again.

    >>> key_of({"kind": "function", "name": "a:b"}, {"rate": 0.1}, "")
    'f95e60bdd2cc'
    """
    text = json.dumps([executable, args, identity], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """The settings in an encoded configuration by dotted names, as tables show them.

    >>> flatten(encode({"model": {"width": 3, "shape": (1, 2)}, "rate": 0.1}))
    {'model.width': 3, 'model.shape': [1, 2], 'rate': 0.1}
    >>> flatten(encode(Gin(["train.rate = 0.1"])))
    {'train.rate': '0.1'}
    """
    if isinstance(value, dict) and isinstance(value.get("$gin"), dict):
        return _flatten_gin(value["$gin"])
    if isinstance(value, dict) and "$dataclass" in value:
        value = value.get("fields")
    plain = _plain(value)
    if not isinstance(plain, dict):
        return {prefix.rstrip(".") or "args": plain}
    found: dict[str, Any] = {}
    for name, inner in plain.items():
        found |= flatten(inner, f"{prefix}{name}.")
    return found


def _flatten_gin(setting: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    files, lines = setting.get("files"), setting.get("bindings")
    for file in files if isinstance(files, list) else []:
        path = str(file.get("path", "") if isinstance(file, dict) else file)
        found["gin files"] = f"{found.get('gin files', '')} {os.path.basename(path)}".strip()
    for line in lines if isinstance(lines, list) else []:
        name, _, bound = str(line).partition("=")
        found[name.strip()] = bound.strip()
    return found


def _plain(value: Any) -> Any:
    """A marked value as a table shows it."""
    if isinstance(value, dict) and len(value) == 1:
        (mark, inner) = next(iter(value.items()))
        if mark in ("$tuple", "$float", "$path", "$name", "$enum"):
            return inner
    return value


__all__ = ["Gin", "decode", "encode", "encode_args", "flatten", "key_of"]
