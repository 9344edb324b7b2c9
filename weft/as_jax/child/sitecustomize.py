"""Runs when a Python process starts whose parent has weft under the name jax.

It gives weft the name here too, at the first import of jax, and then runs the `sitecustomize` that
would have run without it. It imports nothing of weft before: most processes never need it.
"""

import importlib
import importlib.machinery
import importlib.util
import os
import sys

ROOTS = ("jax", "jaxlib")


class Waiting:
    """Gives weft the name jax when the first module of that name is imported."""

    def __init__(self, root):
        self.root = root  # the folder that weft lies in

    def _install(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        sys.path.insert(0, self.root)  # the parent's weft, whichever others there are
        try:
            importlib.import_module("weft.as_jax").install()
        finally:
            sys.path.remove(self.root)

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in ROOTS:
            return None
        self._install()
        return importlib.import_module("weft.as_jax.finder").Finder().find_spec(name, path, target)

    def find_distributions(self, context=None):
        name = getattr(context, "name", None)
        if name is None or name.lower() not in ROOTS:
            return iter(())
        self._install()
        return (
            importlib.import_module("weft.as_jax.distributions")
            .Distributions()
            .find_distributions(context)
        )


def wanted():
    """The folder that weft lies in, if this process is one that the parent spoke of."""
    root, _, prefix = os.environ.get("WEFT_AS_JAX", "").partition(os.pathsep)
    return root if root and prefix == sys.prefix else None


def run_next():
    """Run the `sitecustomize` that this one stands before, if there is one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if wanted() is not None:
        sys.meta_path.insert(0, Waiting(wanted()))
    run_next()
