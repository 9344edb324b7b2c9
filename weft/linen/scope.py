"""Scopes: where the variables and random streams of a module live while it runs.

A scope is one node of the tree of modules. Names are handed out and checked here; what a module
is, and how submodules are made, is in ``module.py``.
"""

import functools
import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

import weft
from weft import numpy as jnp
from weft import random, tree_util
from weft.linen import errors
from weft.linen.core import FrozenDict, unfreeze
from weft.linen.filters import in_filter
from weft.linen.meta import AxisMetadata, replace_boxed, unbox

_NOTHING: dict = {}
# The class of arrays that hold numbers.
CONCRETE = type(jnp.asarray(np.zeros(1)))


@functools.lru_cache(maxsize=65536)
def _fold_data(suffix: tuple) -> np.uint32:
    """The first 32 bits of the SHA-1 hash of names and counters, as flax derives keys."""
    digest = hashlib.sha1()
    for part in suffix:
        if isinstance(part, str):
            digest.update(part.encode())
        else:
            digest.update(part.to_bytes((part.bit_length() + 7) // 8, "big"))
    return np.uint32(int.from_bytes(digest.digest()[:4], "big"))


class LazyRng:
    """A key, and the names and counters that will be folded into it when it is used."""

    __slots__ = ("rng", "suffix")

    def __init__(self, rng, suffix: tuple = ()):
        self.rng, self.suffix = rng, suffix

    def extend(self, *suffix) -> "LazyRng":
        """With more names and counters."""
        return LazyRng(self.rng, self.suffix + suffix)

    def as_key(self):
        """The key, with everything folded in."""
        return random.fold_in(self.rng, _fold_data(self.suffix)) if self.suffix else self.rng


tree_util.register_pytree_node(
    LazyRng, lambda x: ((x.rng,), x.suffix), lambda suffix, rng: LazyRng(rng[0], suffix)
)


class Counters:
    """How many keys of each stream a module took, and the same for its submodules by name."""

    __slots__ = ("used", "children")

    def __init__(self):
        self.used: dict[str, int] = {}
        self.children: dict[str, Counters] = {}

    def child(self, name: str) -> "Counters":
        found = self.children.get(name)
        if found is None:
            found = self.children[name] = Counters()
        return found

    def flat(self, path: tuple = ()) -> dict[tuple, int]:
        """All counts by path and stream."""
        counts = {(*path, name): count for name, count in self.used.items()}
        for name, child in self.children.items():
            counts.update(child.flat((*path, "/" + name)))
        return counts

    def add(self, counts: dict[tuple, int]) -> None:
        """Add counts by path and stream."""
        for path, count in counts.items():
            node = self
            for name in path[:-1]:
                node = node.child(name[1:])
            node.used[path[-1]] = node.used.get(path[-1], 0) + count


class Variable:
    """A variable of a bound module: read ``value``, or assign it if its collection is mutable.

    Args:
        scope: the scope of the module; ``Module.variable`` passes it.
        collection: the name of the collection.
        name: the name of the variable.
        unbox: read the value inside of a box that names axes.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Counter(nn.Module):
        ...     @nn.compact
        ...     def __call__(self):
        ...         count = self.variable("state", "count", lambda: jnp.array(0))
        ...         count.value += 1
        ...         return count.value
        >>> int(Counter().init_with_output(weft.random.key(0))[0])
        1
    """

    __slots__ = ("scope", "collection", "name", "unbox", "_id")

    def __init__(self, scope: Any, collection: str, name: str, unbox: bool = True) -> None:
        self.scope, self.collection, self.name, self.unbox = scope, collection, name, unbox
        self._id = object()

    @property
    def value(self):
        """What the variable holds now."""
        found = self.scope.get_variable(self.collection, self.name)
        return unbox_value(found) if self.unbox else found

    @value.setter
    def value(self, value):
        if self.unbox and self.scope.has_variable(self.collection, self.name):
            old = self.scope.get_variable(self.collection, self.name)
            if not isinstance(old, weft.Array) and has_boxes(old):
                value = replace_boxed(old, value)
        self.scope.put_variable(self.collection, self.name, value)

    def is_mutable(self) -> bool:
        """Whether the variable may be assigned."""
        return self.scope.is_mutable_collection(self.collection)

    def __repr__(self):
        return f"Variable({self.collection}/{'/'.join((*self.scope.path, self.name))})"


def has_boxes(value) -> bool:
    """Whether there is metadata anywhere in a value."""
    leaves = tree_util.tree_leaves(value, is_leaf=lambda x: isinstance(x, AxisMetadata))
    return any(isinstance(leaf, AxisMetadata) for leaf in leaves)


def unbox_value(value):
    """A variable's value without metadata; plain arrays take the short way."""
    return value if isinstance(value, (weft.Array, np.ndarray)) else unbox(value)


@functools.lru_cache(maxsize=1024)
def _same_kind(found, wanted) -> bool:
    """Whether both dtypes are real, both complex, or both neither: parameters may be narrowed."""
    wanted = np.dtype(wanted)
    kinds = [
        [jnp.issubdtype(dtype, kind) for kind in (jnp.inexact, jnp.complexfloating)]
        for dtype in (found, wanted)
    ]
    return kinds[0] == kinds[1]


def _merge(target: dict, name: str, value) -> None:
    """Write a value; dictionaries are written into, because scopes of submodules hold them."""
    old = target.get(name)
    if isinstance(value, dict) and isinstance(old, dict):
        for key, inner in value.items():
            _merge(old, key, inner)
    else:
        target[name] = value


class Scope:
    """One node of the tree of modules: its variables, streams, names, and what may be written."""

    __slots__ = (
        "variables_here",
        "rngs",
        "name",
        "mutable",
        "parent",
        "path",
        "flags",
        "root",
        "counters",
        "reserved",
        "invalid",
        "note",
        "adopted",
    )

    def __init__(
        self,
        variables,
        rngs=None,
        name=None,
        mutable=False,
        parent=None,
        path=(),
        flags=(),
        counters=None,
    ):
        self.variables_here = variables
        self.rngs = rngs or {}
        self.name, self.mutable, self.parent, self.path = name, mutable, parent, path
        self.flags = flags
        self.root = parent.root if parent is not None else self
        self.counters = Counters() if counters is None else counters
        self.reserved: dict[str, set] = {}
        self.invalid = False
        self.note = parent.note if parent is not None else ""
        self.adopted = None  # modules that became submodules, by what they were cloned from

    @property
    def path_text(self) -> str:
        """The path for messages, with the lifted transformation it is under."""
        text = "/" + "/".join(self.path)
        return f"{self.note}({text})" if self.note else text

    def node(self):
        """What tells two scopes apart that stand for the same node."""
        return id(self.root.variables_here), self.path, id(self.counters)

    def check_valid(self) -> None:
        """Fail where the call that this scope belongs to is over."""
        if self.root.invalid or self.invalid:
            raise errors.InvalidScopeError(self.name or "the module")

    # names

    def try_reserve(self, name: str, col: str | None = None) -> bool:
        """Take a name for a submodule (no collection) or a variable, if it is free."""
        taken = self.reserved.get(name)
        if taken is None:
            if not isinstance(name, str):
                raise TypeError(f"names of submodules and variables must be strings, not {name!r}")
            self.reserved[name] = {col}
            return True
        if col is None or col in taken or None in taken:
            return False
        taken.add(col)
        return True

    def reserve(self, name: str, col: str | None = None) -> None:
        """Take a name for a submodule or a variable."""
        if not self.try_reserve(name, col):
            raise ValueError(f"the name {name!r} is used twice in {self.path_text!r}")

    def push(self, name: str) -> "Scope":
        """The scope of a submodule, whose name has been reserved."""
        self.check_valid()
        rngs = {key: rng.extend(name) for key, rng in self.rngs.items()} if self.rngs else None
        path, counters = (*self.path, name), self.counters.child(name)
        return Scope({}, rngs, name, self.mutable, self, path, self.flags, counters)

    # collections

    def is_mutable_collection(self, col: str) -> bool:
        """Whether variables of a collection may be written."""
        return in_filter(self.mutable, col)

    def collection(self, col: str):
        """The variables of a collection at this node, to read."""
        found = self.variables_here.get(col)
        if found is None:
            if self.parent is None:
                return _NOTHING
            found = self.parent.collection(col).get(self.name)
            if found is None:
                return _NOTHING
            self.variables_here[col] = found
        return found

    def writable(self, col: str) -> dict:
        """The variables of a collection at this node, to write."""
        found = self.variables_here.get(col)
        if found is None:
            if self.parent is None:
                found = {}
            else:
                found = self.parent.writable(col).setdefault(self.name, {})
            self.variables_here[col] = found
        return found

    def populate(self) -> dict:
        """All collections at this node."""
        for col in self.root.variables_here:
            self.collection(col)
        return self.variables_here

    def mutable_variables(self) -> dict:
        """The collections that may be written."""
        return {k: v for k, v in self.populate().items() if in_filter(self.mutable, k)}

    # variables

    def get_variable(self, col: str, name: str, default=None):
        """What a variable holds, or the default where there is none."""
        return self.collection(col).get(name, default)

    def has_variable(self, col: str, name: str) -> bool:
        """Whether a variable exists."""
        return name in self.collection(col)

    def put_variable(self, col: str, name: str, value) -> None:
        """Write a variable."""
        self.check_valid()
        if not in_filter(self.mutable, col):
            raise errors.ModifyScopeVariableError(col, name, self.path_text)
        _merge(self.writable(col), name, value)

    def variable(self, col, name, init_fn=None, *init_args, unbox=True, **init_kwargs) -> Variable:
        """A variable, made by ``init_fn`` where it does not exist."""
        if name not in self.collection(col):
            if init_fn is None or not in_filter(self.mutable, col):
                if not self.root.variables_here.get(col):
                    raise errors.ScopeCollectionNotFound(col, name, self.path_text, self.note)
                raise errors.ScopeVariableNotFoundError(name, col, self.path_text)
            self.put_variable(col, name, init_fn(*init_args, **init_kwargs))
        return Variable(self, col, name, unbox)

    def param(self, name, init_fn, *init_args, unbox=True, **init_kwargs):
        """A parameter: the given one, checked, or a new one made by ``init_fn``."""
        here = self.variables_here.get("params") or self.collection("params")
        if name in here:
            value = here[name]
            if type(value) is CONCRETE and len(init_args) == 2 and type(init_args[0]) is tuple:
                if value.shape == init_args[0]:  # what nearly every layer asks for
                    if init_args[1] is not jnp.float32 or value.dtype.kind != "f":
                        self._check_kind(name, value, init_args[1])
                    return value
            plain = unbox_value(value)
            self._check_param(name, plain, init_fn, init_args, init_kwargs)
            return plain if unbox else value
        if not in_filter(self.mutable, "params"):
            if not self.root.variables_here.get("params"):
                raise errors.ScopeCollectionNotFound("params", name, self.path_text, self.note)
            raise errors.ScopeParamNotFoundError(name, self.path_text, here)
        value = init_fn(self.make_rng("params"), *init_args, **init_kwargs)
        self.put_variable("params", name, value)
        return unbox_value(value) if unbox else value

    def _check_param(self, name, value, init_fn, init_args, init_kwargs) -> None:
        """Fail where a given parameter is not of the shape and kind the module makes.

        Initialisers are called as (key, shape, dtype): where the shape fits, nothing is staged.
        """
        if value is None:
            return
        if init_args and isinstance(value, weft.Array):
            shape = init_args[0]
            if type(shape) in (tuple, list) and value.shape == tuple(shape):
                if len(init_args) > 1:
                    self._check_kind(name, value, init_args[1])
                return
        made = weft.eval_shape(lambda: init_fn(random.key(0), *init_args, **init_kwargs))
        found, wanted = tree_util.tree_leaves(value), tree_util.tree_leaves(unbox(made))
        for given, needed in zip(found, wanted):
            if np.shape(given) != np.shape(needed):
                shapes = np.shape(given), np.shape(needed)
                raise errors.ScopeParamShapeError(name, self.path_text, *shapes)
            self._check_kind(name, given, needed.dtype)

    def _check_kind(self, name, value, dtype) -> None:
        found = getattr(value, "dtype", None)
        if found is None:
            text = f"a {type(value).__name__}"
            raise errors.ScopeParamDtypeError(name, self.path_text, text, str(np.dtype(dtype)))
        try:
            agree = _same_kind(found, dtype)
        except TypeError:
            return  # an initialiser with arguments of its own
        if not agree:
            wanted = str(np.dtype(dtype))
            raise errors.ScopeParamDtypeError(name, self.path_text, str(found), wanted)

    # random streams

    def has_rng(self, name: str) -> bool:
        """Whether a stream was given."""
        return name in self.rngs

    def make_rng(self, name: str = "params"):
        """The next key of a stream; a missing stream falls back to 'params'."""
        rng = self.rngs.get(name)
        if rng is None:
            if "params" not in self.rngs:
                given = ", ".join(map(repr, self.rngs)) or "none"
                raise errors.InvalidRngError(
                    f"{self.path_text!r} needs random numbers of the stream {name!r}; given are: "
                    f"{given}. Pass rngs={{{name!r}: key}} to apply or init"
                )
            name, rng = "params", self.rngs["params"]
        self.check_valid()
        used = self.counters.used
        used[name] = count = used.get(name, 0) + 1
        return rng.extend(count).as_key()


def is_valid_rng(rng) -> bool:
    """Whether a value is one random key, typed or as raw bits."""
    if isinstance(rng, LazyRng):
        return True
    if not isinstance(rng, (np.ndarray, weft.Array)):
        return False
    if jnp.issubdtype(rng.dtype, weft.dtypes.prng_key):
        return rng.shape == ()
    made = weft.eval_shape(lambda: random.key_data(random.key(0)))
    return (rng.shape, rng.dtype) == (made.shape, made.dtype)


def as_streams(rngs, who: str) -> dict[str, LazyRng] | None:
    """Streams by name, from one key (the stream 'params') or a dictionary of keys."""
    if rngs is None:
        return None
    if not isinstance(rngs, Mapping):
        if not is_valid_rng(rngs):
            raise errors.InvalidRngError(
                f"{who} takes a random key, such as weft.random.key(0), or a dictionary from "
                f"stream names to keys, not {_brief(rngs)}"
            )
        rngs = {"params": rngs}
    for name, rng in rngs.items():
        if not isinstance(name, str) or not is_valid_rng(rng):
            raise errors.InvalidRngError(
                f"{who}: the stream {name!r} must be a random key, such as weft.random.key(0), not "
                f"{_brief(rng)}"
            )
    return {k: v if isinstance(v, LazyRng) else LazyRng(v) for k, v in rngs.items()}


def _brief(value) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of {value.dtype}{list(value.shape)}"
    return f"{value!r:.60}"


def root_scope(variables, rngs, mutable, flags=()) -> Scope:
    """The scope of a top module; collections that may be written are copied first."""
    if not isinstance(variables, Mapping):
        found = f", not {type(variables).__name__}"
        raise errors.ApplyScopeInvalidVariablesTypeError(found)
    for name, col in variables.items():
        if not isinstance(name, str) or not isinstance(col, (dict, FrozenDict)):
            found = f"; {name!r} is {type(col).__name__}"
            raise errors.ApplyScopeInvalidVariablesTypeError(found)
        if not all(isinstance(key, str) for key in col):
            found = f"; {name!r} has keys that are no text"
            raise errors.ApplyScopeInvalidVariablesTypeError(found)
    if isinstance(variables.get("params"), (dict, FrozenDict)) and "params" in variables["params"]:
        raise errors.ApplyScopeInvalidVariablesStructureError(variables)
    copied = {k: unfreeze(v) if in_filter(mutable, k) else v for k, v in variables.items()}
    return Scope(copied, rngs, mutable=mutable, flags=flags)


def check_not_escaped(variables) -> None:
    """Fail if variables hold traced values of a transformation that has ended."""
    traced = [
        (path, leaf)
        for path, leaf in tree_util.tree_flatten_with_path(variables)[0]
        if isinstance(leaf, weft.core.Tracer)
    ]
    if not traced:
        return
    use = lambda leaves: weft.eval_shape(lambda: [weft.lax.broadcast(x, (1,)) for x in leaves])
    try:
        use([leaf for _, leaf in traced])  # on the side: nothing is added to what is being traced
    except weft.errors.UnexpectedTracerError as error:
        names = []
        for path, leaf in traced:
            try:
                use([leaf])
            except weft.errors.UnexpectedTracerError:
                names.append("/".join(str(getattr(key, "key", key)) for key in path))
        raise errors.JaxTransformError(names) from error
