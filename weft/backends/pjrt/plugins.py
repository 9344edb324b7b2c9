"""Where plugins are: installed packages, the variable of the environment, and those registered.

A plugin of JAX's is a package in the namespace ``jax_plugins``, or one that an entry point of that
group names. Its code needs JAX, so it is not run: the library lies in its folder.
"""

from __future__ import annotations

import glob
import importlib.metadata
import importlib.util
import os
import pkgutil
from collections.abc import Callable
from typing import Any

from weft.backends.pjrt.api import Api, load
from weft.base.record import Record

GROUP, VARIABLE = "jax_plugins", "PJRT_NAMES_AND_LIBRARY_PATHS"


class Plugin(Record):
    """A plugin by its name: a library, or what makes its table of functions."""

    name: str
    path: str | None
    open: Callable[[], Api] | None = None
    options: Any = None  # for its client


_registered: dict[str, Plugin] = {}
_loaded: dict[str, Api] = {}


def register(
    name: str,
    library_path: str | None = None,
    options: dict[str, Any] | None = None,
    open: Callable[[], Api] | None = None,
) -> None:
    """Make a plugin known: by its library, or by what opens it."""
    _registered[name] = Plugin(name, library_path, open, dict(options or {}))
    _loaded.pop(name, None)


def unregister(name: str) -> None:
    """Forget a plugin that was registered."""
    _registered.pop(name, None)
    _loaded.pop(name, None)


def known() -> dict[str, Plugin]:
    """All plugins, by name: registered ones first, then those of the environment's variable."""
    found = dict(_registered)
    for plugin in [*_from_variable(), *_libtpu(), *_installed()]:
        found.setdefault(plugin.name, plugin)
    return found


def _from_variable() -> list[Plugin]:
    found = []
    for entry in os.environ.get(VARIABLE, "").split(","):
        name, colon, path = entry.strip().partition(":")
        if entry.strip():
            if not colon or not name or not path:
                raise ValueError(
                    f"{VARIABLE} has the entry {entry.strip()!r}; write name:path of a library; "
                    "separate several with commas"
                )
            found.append(Plugin(name.strip(), path.strip()))
    return found


def _libtpu() -> list[Plugin]:
    path = os.environ.get("TPU_LIBRARY_PATH", "")
    if not path:
        spec = importlib.util.find_spec("libtpu")
        folders = [] if spec is None else list(spec.submodule_search_locations or ())
        paths = [os.path.join(folder, "libtpu.so") for folder in folders]
        path = next((p for p in paths if os.path.exists(p)), "")
    return [Plugin("tpu", path)] if path else []


def _installed() -> list[Plugin]:
    folders: dict[str, list[str]] = {}
    spec = importlib.util.find_spec(GROUP)
    for where in list(spec.submodule_search_locations or ()) if spec is not None else []:
        for module in pkgutil.iter_modules([where]):
            if module.ispkg:
                folders.setdefault(module.name, []).append(os.path.join(where, module.name))
    for entry in importlib.metadata.entry_points(group=GROUP):
        top, *rest = entry.module.split(".")
        spec = importlib.util.find_spec(top)
        places = [] if spec is None else list(spec.submodule_search_locations or ())
        folders.setdefault(entry.name, []).extend(os.path.join(p, *rest) for p in places)
    found = []
    for name, places in folders.items():
        path = next((p for place in places if (p := _library(place))), None)
        if path is not None:
            found.append(Plugin(name, path, None, _allocation(name)))
    return found


def _library(folder: str) -> str | None:
    """The library of a plugin in its package: the one that is named as such, or the only one."""
    every = sorted(glob.glob(os.path.join(glob.escape(folder), "*.so")))
    named = [p for p in every if any(w in os.path.basename(p) for w in ("pjrt", "plugin"))]
    if named:
        return named[0]
    return every[0] if len(every) == 1 else None


def _allocation(name: str) -> dict[str, Any]:
    """How much memory a plugin for GPUs takes at once, by JAX's variables."""
    if "cuda" not in name and "rocm" not in name:
        return {}
    found: dict[str, Any] = {}
    ahead = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "")
    if ahead:
        found["preallocate"] = ahead.lower() in ("1", "true", "yes")
    fraction = os.environ.get("XLA_PYTHON_CLIENT_MEM_FRACTION", "")
    if fraction:
        found["memory_fraction"] = float(fraction)
    return found


def named(name: str) -> Plugin:
    """A plugin by its name; RuntimeError where there is none."""
    every = known()
    if name not in every:
        listed = ", ".join(every) or "none"
        raise RuntimeError(
            f"no PJRT plugin is called {name!r}; known plugins: {listed}. Install one, as with"
            f" pip install weft[tpu], or set {VARIABLE}=name:path"
        )
    return every[name]


def api_of(plugin: Plugin) -> Api:
    """The functions of a plugin, loaded once."""
    found = _loaded.get(plugin.name)
    if found is None:
        if plugin.name == "tpu" and not _has_tpu():
            # without a TPU the library is a compiler, which need not ask the cloud where it runs
            os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
            os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
            os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
        made = load(str(plugin.path), plugin.name) if plugin.open is None else plugin.open()
        found = _loaded.setdefault(plugin.name, made)
    return found


def _has_tpu() -> bool:
    return bool(glob.glob("/dev/accel*") or glob.glob("/dev/vfio/[0-9]*"))
