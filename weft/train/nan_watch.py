"""Finds the step at which numbers stop being finite, names where, and saves what led there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

import weft
from weft import numpy as jnp
from weft import tree_util
from weft.train.checkpoint import files
from weft.train.checkpoint.manager import CheckpointManager
from weft.train.checkpoint.structure import named_leaves


class NonFiniteError(FloatingPointError):
    """The error when a training comes to a number that is not finite.

    Args:
        message: what happened.
        step: the step.
        names: the names of the leaves that are not finite.
        path: the checkpoint with the batch and the state before the step, or None.

    Example:
        >>> error = NonFiniteError("loss is NaN", 3, ["loss"], None)
        >>> error.step, error.names
        (3, ('loss',))
    """

    def __init__(self, message: str, step: int, names: Sequence[str], path: str | None) -> None:
        super().__init__(message)
        self.step, self.names, self.path = step, tuple(names), path


def _checkable(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.inexact)


@weft.jit
def _flags(leaves: Any) -> Any:
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves])


def non_finite(tree: Any) -> dict[str, str]:
    """The leaves of a tree that hold NaN or infinity, and how many of each.

    Args:
        tree: any pytree.

    Returns:
        A text such as ``"2 NaN, 1 inf of 10"`` by the name of the leaf.

    Example:
        >>> non_finite({"a": jnp.ones(2), "b": {"w": jnp.array([1.0, jnp.nan, jnp.inf])}})
        {'b/w': '1 NaN, 1 inf of 3'}
    """
    leaves = {name: x for name, x in named_leaves(tree)[0].items() if _checkable(x)}
    if not leaves:
        return {}
    finite = np.asarray(_flags(list(leaves.values())))
    return {
        name: f"{int(jnp.isnan(x).sum())} NaN, {int(jnp.isinf(x).sum())} inf of {x.size}"
        for (name, x), fine in zip(leaves.items(), finite)
        if not fine
    }


class NanWatch:
    """Checks trees at every step, and saves batch and state where a number is not finite.

    Args:
        folder: where the batch and the state are saved; None saves nothing.
        every: check only steps that are multiples of this.

    Example:
        >>> watch = NanWatch(every=10)
        >>> watch.check(20, {"grads": {"Dense_0": jnp.array([jnp.nan])}})
        Traceback (most recent call last):
            ...
        weft.train.nan_watch.NonFiniteError: step 20: grads/Dense_0 has 1 NaN, 0 inf of 1
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, every: int = 1) -> None:
        if every < 1:
            raise ValueError(f"every={every}: it must be 1 or more")
        self.folder = None if folder is None else os.fspath(folder)
        self.every = every

    def check(self, step: int, tree: Any, *, batch: Any = None, state: Any = None) -> None:
        """Raise NonFiniteError if a leaf of a tree is not finite.

        The check is one small computation on the device; its result is waited for.

        Args:
            step: the training step.
            tree: what must be finite: the loss, gradients, parameters.
            batch: the batch of this step, to be saved.
            state: the state before this step, to be saved. A step that donates its state leaves
                none; give its result, or make the step with ``donate=False`` while you search.
        """
        if step % self.every:
            return
        found = non_finite(tree)
        if not found:
            return
        path = None
        if self.folder is not None:
            path = self._save(step, {"batch": batch, "state": _without_deleted(state)}, found)
        shown = "; ".join(f"{name} has {text}" for name, text in list(found.items())[:5])
        more = f"; and {len(found) - 5} more" if len(found) > 5 else ""
        saved = f". Batch and state are in {path}" if path else ""
        raise NonFiniteError(f"step {step}: {shown}{more}{saved}", step, list(found), path)

    def _save(self, step: int, kept: Any, found: dict[str, str]) -> str:
        path, metadata = self._free_path(step), {"non_finite": found}
        if weft.process_count() == 1:
            return files.save(path, kept, step=step, metadata=metadata)
        with CheckpointManager(path) as manager:  # all processes write their parts
            return manager.save(step, kept, metadata=metadata, overwrite=True)

    def _free_path(self, step: int) -> str:
        assert self.folder is not None
        path = os.path.join(self.folder, f"non_finite_step_{step}")
        number = 1
        while weft.process_count() == 1 and os.path.lexists(path):
            path = os.path.join(self.folder, f"non_finite_step_{step}-{number}")
            number += 1
        return path


def _without_deleted(state: Any) -> Any:
    """A tree in which donated arrays, whose memory is gone, are None."""
    gone = lambda x: isinstance(x, weft.Array) and x.is_deleted()
    return tree_util.tree_map(lambda x: None if gone(x) else x, state)
