"""Run code written for JAX on weft, unchanged: ``import jax`` gives weft's own objects.

    python -m weft.as_jax script.py [arguments]
    python -m weft.as_jax -m module [arguments]
    python -m pytest -p weft.as_jax.pytest tests

or, before anything imports jax:

    import weft.as_jax
    weft.as_jax.install()

Nothing happens unless one of these is written. JAX need not be installed; if it is, it stays
unused. ``docs/ecosystem.md`` says which libraries were run this way.
"""

from __future__ import annotations

import sys

from weft.as_jax.children import keep_alias
from weft.as_jax.distributions import Distributions
from weft.as_jax.finder import Finder
from weft.as_jax.table import VERSION as VERSION

__all__ = ["VERSION", "install", "is_installed"]


def install() -> None:
    """Make ``import jax`` and ``import jaxlib`` give weft from now on.

    This holds for this process and for those it starts with the same interpreter: forks, workers of
    ``multiprocessing`` and ``subprocess``. ``WEFT_AS_JAX=0`` in the environment leaves them to JAX.

    >>> import subprocess, sys
    >>> code = "import weft.as_jax; weft.as_jax.install(); import jax; print(jax.numpy.__name__)"
    >>> subprocess.check_output([sys.executable, "-c", code], text=True)
    'weft.numpy\\n'
    """
    if is_installed():
        return
    loaded = sorted(name for name in sys.modules if name in ("jax", "jaxlib"))
    if loaded:
        place = getattr(sys.modules[loaded[0]], "__file__", None)
        raise RuntimeError(
            f"{loaded[0]} is imported already{f' from {place}' if place else ''}, so weft can no "
            "longer take its name; call weft.as_jax.install() before the first import of"
            " jax and of libraries that import it, or run python -m weft.as_jax script.py"
        )
    sys.meta_path.insert(0, Finder())
    sys.meta_path.insert(0, Distributions())
    keep_alias()


def is_installed() -> bool:
    """Return whether ``import jax`` gives weft.

    Returns:
        True or False.

    Example:
        >>> import weft.as_jax
        >>> isinstance(weft.as_jax.is_installed(), bool)
        True
    """
    return any(isinstance(finder, Finder) for finder in sys.meta_path)
