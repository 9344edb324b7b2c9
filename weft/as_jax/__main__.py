"""``python -m weft.as_jax script.py [arguments]``, ``python -m weft.as_jax -m module``."""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys

from weft.as_jax import install

USAGE = """\
usage: python -m weft.as_jax script.py [arguments]
       python -m weft.as_jax -m module [arguments]
       python -m weft.as_jax -c code [arguments]

Runs a program in which `import jax` gives weft."""
# Libraries whose interface weft has, and what they need besides JAX.
_OWN = {
    "flax": "msgpack PyYAML rich treescope typing_extensions",
    "optax": "absl-py",
}
# Packages whose modules have another name.
_PACKAGES = {"absl": "absl-py", "yaml": "PyYAML"}


def _hint(error: ModuleNotFoundError) -> str:
    """What to do if a library isn't installed."""
    name = (error.name or "").partition(".")[0]
    if not name or name in ("jax", "jaxlib") or importlib.util.find_spec(name) is not None:
        return ""
    if name in _OWN:
        return (
            f"{name} is not installed. weft has its interface: `python -m weft.moving PROGRAM"
            f" --rewrite` changes the imports to it. To run {name} itself on weft:"
            f" `pip install --no-deps {name}` and `pip install {_OWN[name]}`."
        )
    package = _PACKAGES.get(name, name)
    return (
        f"{name} is not installed: `pip install {package}`, or, if it needs JAX, which weft"
        f" replaces, `pip install --no-deps {package}` and what else it needs."
    )


def _run(arguments: list[str]) -> None:
    if arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    elif arguments[0] == "-c":
        sys.argv = ["-c", *arguments[2:]]
        module = type(sys)("__main__")
        sys.modules["__main__"] = module
        exec(compile(arguments[1], "<string>", "exec"), vars(module))
    else:
        sys.argv = arguments
        # what `python script.py` searches first, in the place of the folder `-m` put there
        sys.path[0] = os.path.dirname(os.path.abspath(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")


def main(arguments: list[str]) -> int:
    """Run what the arguments name, as the Python interpreter would."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    if arguments[0] in ("-m", "-c") and len(arguments) == 1:
        print(USAGE, file=sys.stderr)
        return 2
    install()
    try:
        _run(arguments)
    except ModuleNotFoundError as error:
        if hint := _hint(error):
            error.add_note(hint)
        raise
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
