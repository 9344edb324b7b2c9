"""``python -m weft.as_jax script.py [arguments]``, ``python -m weft.as_jax -m module``."""

from __future__ import annotations

import os
import runpy
import sys

from weft.as_jax import install

USAGE = """\
usage: python -m weft.as_jax script.py [arguments]
       python -m weft.as_jax -m module [arguments]
       python -m weft.as_jax -c code [arguments]

Runs a program in which `import jax` gives weft."""


def main(arguments: list[str]) -> int:
    """Run what the arguments name, as the Python interpreter would."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if arguments else 2
    if arguments[0] in ("-m", "-c") and len(arguments) == 1:
        print(USAGE, file=sys.stderr)
        return 2
    install()
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
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
