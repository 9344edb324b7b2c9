"""Pytrees: nested containers of leaves, taken apart, mapped over and put together again.

Containers are None, tuples, lists, dictionaries, named tuples and the classes that were
registered; everything else is a leaf. ``weft.tree_util`` holds the registration functions.
"""

from weft.tree.functions import tree_all as all
from weft.tree.functions import tree_broadcast as broadcast
from weft.tree.functions import tree_flatten as flatten
from weft.tree.functions import tree_flatten_with_path as flatten_with_path
from weft.tree.functions import tree_leaves as leaves
from weft.tree.functions import tree_leaves_with_path as leaves_with_path
from weft.tree.functions import tree_map as map
from weft.tree.functions import tree_map_with_path as map_with_path
from weft.tree.functions import tree_reduce as reduce
from weft.tree.functions import tree_reduce_associative as reduce_associative
from weft.tree.functions import tree_structure as structure
from weft.tree.functions import tree_transpose as transpose
from weft.tree.functions import tree_unflatten as unflatten
from weft.tree.registry import static as static

__all__ = [
    "all",
    "broadcast",
    "flatten",
    "flatten_with_path",
    "leaves",
    "leaves_with_path",
    "map",
    "map_with_path",
    "reduce",
    "reduce_associative",
    "static",
    "structure",
    "transpose",
    "unflatten",
]
