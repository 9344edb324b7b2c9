"""Processes that this one starts keep weft under the name jax.

Forked ones have it. Others are new interpreters: they find `WEFT_AS_JAX` in their environment and,
on their path, the folder `child`, whose `sitecustomize` obeys it. `WEFT_AS_JAX=0` in the
environment of a child leaves it to JAX.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from multiprocessing import spawn
from typing import Any

from weft.base.source import warn

VARIABLE = "WEFT_AS_JAX"
HOOK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "child")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Runs in a child that ignores its environment, before it reads anything else from its parent.
IN_CHILD = """
import sys
sys.path.insert(0, {root!r})
import weft.as_jax
weft.as_jax.install()
sys.path.remove({root!r})
"""


def with_alias(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child that has weft under the name jax.

    >>> with_alias({"WEFT_AS_JAX": "0"})
    {'WEFT_AS_JAX': '0'}
    """
    found = dict(environment)
    if found.get(VARIABLE) in ("", "0"):
        return found  # the user says otherwise
    found[VARIABLE] = ROOT + os.pathsep + sys.prefix
    paths = [path for path in found.get("PYTHONPATH", "").split(os.pathsep) if path]
    if HOOK not in paths:
        found["PYTHONPATH"] = os.pathsep.join([HOOK, *paths])
    return found


def keep_alias() -> None:
    """Have all interpreters that this process starts from now on take weft for jax."""
    os.environ.update(with_alias(os.environ))
    _complete_environments()
    if sys.flags.ignore_environment or sys.flags.no_site:
        _prepare_workers()


def _complete_environments() -> None:
    """Have ``subprocess`` complete an ``env`` that is given for this interpreter."""
    start = subprocess.Popen.__init__
    if hasattr(start, "keeps_alias"):
        return

    @functools.wraps(start)
    def init(self: Any, args: Any, *rest: Any, **options: Any) -> None:
        if _is_python(options.get("executable") or args):
            if options.get("env") is not None:
                options["env"] = with_alias(options["env"])
            _warn_of_flags(args)
        start(self, args, *rest, **options)

    init.keeps_alias = True  # type: ignore[attr-defined]
    subprocess.Popen.__init__ = init  # type: ignore[method-assign]


def _is_python(args: Any) -> bool:
    """Whether a command starts this interpreter."""
    command = args if isinstance(args, (str, bytes, os.PathLike)) else next(iter(args), "")
    try:
        name = os.fsdecode(command)
    except TypeError:
        return False
    found = shutil.which(name.split()[0]) if name.strip() else None
    if not found or not os.path.basename(found).startswith("python"):
        return False
    return os.path.dirname(os.path.abspath(found)) == os.path.dirname(sys.executable)


def _warn_of_flags(args: Any) -> None:
    """Warn of flags that make a child ignore the environment, and so the alias."""
    if isinstance(args, (str, bytes, os.PathLike)):
        return
    for argument in list(args)[1:]:
        text = os.fsdecode(argument)
        if not text.startswith("-") or text.startswith("--") or text == "-":
            return
        letters = text[1:].partition("c")[0].partition("m")[0].partition("W")[0].partition("X")[0]
        flags = sorted(set(letters) & set("IES"))
        if flags:
            warn(
                f"Python is started with -{flags[0]}, which hides {VARIABLE} from it: `import jax`"
                " gives JAX there, or nothing; start it without, or with -m weft.as_jax",
                RuntimeWarning,
                through=(subprocess.__file__,),
            )
        if len(letters) < len(text) - 1:
            return  # the program, or an option with a value, comes next


class _Install:
    """An object that gives weft the name where it is unpickled."""

    def __reduce__(self) -> Any:
        return exec, (IN_CHILD.format(root=ROOT),)


def _prepare_workers() -> None:
    """Have the workers of ``multiprocessing`` take the alias from what their parent sends."""
    prepare = spawn.get_preparation_data

    @functools.wraps(prepare)
    def prepare_with_alias(name: str) -> dict[str, Any]:
        return {"weft_as_jax": _Install(), **prepare(name)}

    spawn.get_preparation_data = prepare_with_alias  # type: ignore[assignment]
