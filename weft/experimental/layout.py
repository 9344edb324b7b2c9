"""How arrays lie in memory: here every array is row-major, whatever order is asked for."""

from __future__ import annotations

from typing import Any

from weft.core.layout import Format as Format
from weft.core.layout import Layout as Layout
from weft.core.trace import typeof as _typeof
from weft.tree.functions import tree_leaves as _leaves
from weft.tree.functions import tree_map as _tree_map


def with_layout_constraint(x: Any, layouts: Any) -> Any:
    """Return ``x``, for which an order in memory is asked.

    Arrays stay row-major, so it changes nothing.

    Args:
        x: an array or a tree of arrays.
        layouts: the layout of each, which must have as many dimensions.

    Returns:
        ``x``.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.experimental.layout import Layout, with_layout_constraint
        >>> with_layout_constraint(jnp.ones((2, 3)), Layout((1, 0))).shape
        (2, 3)
    """

    def check(layout, part):
        for leaf in _leaves(part):
            layout.check_fits(_typeof(leaf).shape, "with_layout_constraint")
        return part

    return _tree_map(check, layouts, x, is_leaf=lambda node: isinstance(node, Layout))
