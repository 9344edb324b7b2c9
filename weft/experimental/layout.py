"""How arrays lie in memory: here every array is row-major, and layouts only say so."""

from weft.core.layout import Format as Format
from weft.core.layout import Layout as Layout
from weft.core.trace import typeof as _typeof
from weft.tree.functions import tree_leaves as _leaves
from weft.tree.functions import tree_map as _tree_map


def with_layout_constraint(x, layouts):
    """``x``, which must lie as ``layouts`` says: row-major, the one order that is supported.

    >>> import weft.numpy as jnp
    >>> from weft.experimental.layout import Layout, with_layout_constraint
    >>> with_layout_constraint(jnp.ones((2, 3)), Layout((0, 1))).shape
    (2, 3)
    """

    def check(layout, part):
        for leaf in _leaves(part):
            order = tuple(range(_typeof(leaf).ndim))
            if tuple(layout.major_to_minor) != order or layout.tiling not in (None, ()):
                raise NotImplementedError(
                    f"arrays are row-major; an array of shape {_typeof(leaf).shape} cannot have"
                    f" {layout}"
                )
        return part

    return _tree_map(check, layouts, x, is_leaf=lambda node: isinstance(node, Layout))
