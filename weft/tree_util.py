"""Pytrees in full: the functions of ``weft.tree``, registration, key paths and structures."""

import sys as _sys

from weft.base.traceback import expose as _expose
from weft.tree.functions import all_leaves as all_leaves
from weft.tree.functions import tree_all as tree_all
from weft.tree.functions import tree_broadcast as tree_broadcast
from weft.tree.functions import tree_flatten as tree_flatten
from weft.tree.functions import tree_flatten_with_path as tree_flatten_with_path
from weft.tree.functions import tree_leaves as tree_leaves
from weft.tree.functions import tree_leaves_with_path as tree_leaves_with_path
from weft.tree.functions import tree_map as tree_map
from weft.tree.functions import tree_map_with_path as tree_map_with_path
from weft.tree.functions import tree_reduce as tree_reduce
from weft.tree.functions import tree_reduce_associative as tree_reduce_associative
from weft.tree.functions import tree_structure as tree_structure
from weft.tree.functions import tree_transpose as tree_transpose
from weft.tree.functions import tree_unflatten as tree_unflatten
from weft.tree.functions import treedef_children as treedef_children
from weft.tree.functions import treedef_is_leaf as treedef_is_leaf
from weft.tree.functions import treedef_tuple as treedef_tuple
from weft.tree.keys import DictKey as DictKey
from weft.tree.keys import FlattenedIndexKey as FlattenedIndexKey
from weft.tree.keys import GetAttrKey as GetAttrKey
from weft.tree.keys import KeyEntry as KeyEntry
from weft.tree.keys import KeyPath as KeyPath
from weft.tree.keys import SequenceKey as SequenceKey
from weft.tree.keys import keystr as keystr
from weft.tree.partial import Partial as Partial
from weft.tree.registry import default_registry as default_registry
from weft.tree.registry import flatten_one_level as flatten_one_level
from weft.tree.registry import flatten_one_level_with_keys as flatten_one_level_with_keys
from weft.tree.registry import is_tree_node as is_tree_node
from weft.tree.registry import register_dataclass as register_dataclass
from weft.tree.registry import register_pytree_node as register_pytree_node
from weft.tree.registry import register_pytree_node_class as register_pytree_node_class
from weft.tree.registry import register_pytree_with_keys as register_pytree_with_keys
from weft.tree.registry import register_pytree_with_keys_class as register_pytree_with_keys_class
from weft.tree.registry import register_static as register_static
from weft.tree.treedef import PyTreeDef as PyTreeDef

_expose(_sys.modules[__name__])
