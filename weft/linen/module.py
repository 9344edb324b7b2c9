"""Modules: dataclasses that describe a network and, in ``init`` and ``apply``, hold variables.

A module is bound when it has a scope (``scope.py``). Binding is done on clones, so that the
module a user made never changes; cloning and calling are kept cheap, because both happen for
every layer of every call.
"""

import dataclasses
import functools
import inspect
import weakref
from collections.abc import Callable
from types import GetSetDescriptorType, MemberDescriptorType, MethodType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, dataclass_transform, overload

import weft
from weft import numpy as jnp
from weft import tree_util
from weft.linen import errors, notebook
from weft.linen.attributes import PLAIN, annotations_of, freeze_attribute, holds, map_inside
from weft.linen.context import context, naming, run_interceptors
from weft.linen.describe import describe
from weft.linen.filters import DenyList, union_filters
from weft.linen.known import Unknown, compute_known
from weft.linen.scope import (
    CONCRETE,
    Scope,
    Variable,
    as_streams,
    check_not_escaped,
    root_scope,
)

_T = TypeVar("_T")
_F = TypeVar("_F", bound=Callable[..., Any])

NEW, TRANSFORMED, DONE = range(3)
ALL_BUT_INTERMEDIATES = DenyList("intermediates")
_OWN_FIELDS = ("parent", "name")
_NEVER_WRAPPED = {"__eq__", "__repr__", "__init__", "__hash__", "__post_init__", "__setattr__"}


class _Unspecified:
    """The parent of a module that is made without naming one: the module being called."""

    def __repr__(self):
        return "<the module being called>"

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return "_unspecified_parent"


_unspecified_parent = _Unspecified()


class _State:
    """What a module is doing: which methods run, how far setup is, the names it gave out."""

    __slots__ = ("in_compact", "in_setup", "setup", "ready", "cursor", "children")

    def __init__(self):
        self.in_compact = self.in_setup = self.ready = False
        self.setup = NEW
        self.cursor: dict[str, int] = {}
        self.children: dict = {}

    def reset(self) -> None:
        """After the outermost setup or compact method."""
        self.in_compact = self.in_setup = False
        self.cursor = {}

    def export(self) -> "_State":
        """For a clone inside of a lifted transformation, which runs setup again."""
        copied = _State()
        copied.setup = TRANSFORMED if self.setup else NEW
        copied.reimport(self)
        return copied

    def reimport(self, other: "_State") -> None:
        """Go on where a clone stopped."""
        self.in_compact, self.in_setup, self.ready = other.in_compact, other.in_setup, other.ready
        self.cursor = dict(other.cursor)


class _Parent:
    """The parent of a module, held weakly: children do not keep variables alive."""

    def __get__(self, obj, cls=None):
        if obj is None:
            return None
        ref = obj.__dict__.get("_parent")
        return ref() if type(ref) is weakref.ref else ref

    def __set__(self, obj, value):
        obj.__dict__["_parent"] = weakref.ref(value) if isinstance(value, Module) else value


def compact(fun: _F) -> _F:
    """Return a method that may define submodules, parameters and variables where it uses them.

    Args:
        fun: the method.

    Returns:
        The method, for use as a decorator.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Two(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, x):
        ...         return nn.Dense(2)(nn.relu(nn.Dense(8)(x)))
        >>> sorted(Two().init(weft.random.key(0), jnp.ones(3))["params"])
        ['Dense_0', 'Dense_1']
    """
    fun.compact = True
    return fun


def nowrap(fun: _F) -> _F:
    """Return a method as it is: a helper that neither needs variables nor a name of its own.

    Args:
        fun: the method.

    Returns:
        The method, for use as a decorator.

    Example:
        >>> from weft import linen as nn
        >>> class Net(nn.Module):
        ...     @nn.nowrap
        ...     def width(self):
        ...         return 4
        >>> Net().width()
        4
    """
    fun.nowrap = True
    return fun


def compact_name_scope(fun: _F) -> _F:
    """Return a compact method whose submodules and variables live under the method's own name.

    Args:
        fun: the method.

    Returns:
        The method, for use as a decorator.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Net(nn.Module):
        ...     @nn.compact_name_scope
        ...     def up(self, x):
        ...         return nn.Dense(2)(x)
        ...     def __call__(self, x):
        ...         return self.up(x)
        >>> sorted(Net().init(weft.random.key(0), jnp.ones(3))["params"])
        ['up']
    """

    @functools.wraps(fun)
    def call(self, *args, **kwargs):
        self._try_setup()
        scopes = self.__dict__.get("_name_scopes")
        if scopes is None:
            where = f"{type(self).__name__}.{fun.__name__}"
            raise ValueError(f"{where} needs a bound module: call it inside init or apply")
        return scopes[fun.__name__](*args, **kwargs)

    call.compact_name_scope, call.inner_fun, call.nowrap = True, fun, True
    return call


def _wrap_method(fun):
    """A method as callers see it: setup has run, submodules made in it belong to the module."""
    if hasattr(fun, "method_handler_wrapped"):
        return fun
    is_compact = hasattr(fun, "compact")
    name = getattr(fun, "__name__", "unnamed_function")

    @functools.wraps(fun)
    def method(*args, **kwargs):
        if args and isinstance(args[0], Module):
            return _call(fun, name, is_compact, args, kwargs)
        return fun(*args, **kwargs)

    method.method_handler_wrapped = True
    return method


def _call(fun, name, is_compact, args, kwargs):
    self = args[0]
    state = self._state
    is_setup = name == "setup"
    outermost = True
    if is_setup:
        if self.scope is None:
            raise errors.CallSetupUnboundModuleError(type(self).__name__)
        outermost, state.in_setup = not state.in_setup, True
    else:
        self._try_setup()
    if is_compact:
        if self.scope is None:
            raise errors.CallCompactUnboundModuleError(type(self).__name__)
        outermost, state.in_compact = not state.in_compact, True
    here = context
    here.modules.append(self)
    try:
        record = here.records[-1].begin(self) if here.records and not is_setup else None
        if here.interceptors:
            call = lambda *a, **k: run_interceptors(fun, name, self, a[1:], k)
        else:
            call = fun
        # Nothing is recorded about operations on concrete arrays: calls with them need no name.
        if naming.enabled and not (len(args) > 1 and type(args[1]) is CONCRETE):
            with weft.named_scope(profile_name(self, name)):
                out = call(*args, **kwargs)
        else:
            out = call(*args, **kwargs)
        if here.captures and (wanted := here.captures[-1]) and wanted(self, name):
            self.sow("intermediates", name, out)
        if record is not None:
            record.end(self, name, args[1:], kwargs, out)
        return out
    finally:
        here.modules.pop()
        if is_compact:
            self.scope.reserved.clear()  # a second call defines the same names again
        if outermost and (is_compact or is_setup):
            state.reset()


def profile_name(module, method: str) -> str:
    """What a call is named in profiles."""
    own = module.name or type(module).__name__
    return own if method == "__call__" else f"{own}.{method}"


class _Property(property):
    """A property whose AttributeError does not look as if the property itself were missing."""

    def __get__(self, obj, cls=None):
        try:
            return super().__get__(obj, cls)
        except AttributeError as error:
            name = getattr(self.fget, "__name__", "")
            raise errors.DescriptorAttributeError(name, error) from error

    def __reduce__(self):  # for libraries that pickle classes by what they are made of
        return _Property, (self.fget, self.fset, self.fdel, self.__doc__)


class _Descriptor:
    """A descriptor of the user's, guarded as properties are."""

    def __init__(self, wrapped):
        self.__wrapped__ = wrapped

    def __get__(self, obj, cls=None):
        try:
            return self.__wrapped__.__get__(obj, cls)
        except AttributeError as error:
            name = getattr(self.__wrapped__, "attrname", type(self.__wrapped__).__name__)
            raise errors.DescriptorAttributeError(name, error) from error

    def __getattr__(self, name):
        if name == "__wrapped__":  # not there yet while a copy is made
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)


class _DataDescriptor(_Descriptor):
    """A descriptor that is assigned to as well."""

    def __set__(self, obj, value):
        self.__wrapped__.__set__(obj, value)

    def __delete__(self, obj):
        self.__wrapped__.__delete__(obj)


def _guard_descriptor(value):
    """A class attribute, guarded if it is a descriptor of the user's; None otherwise."""
    own = (property, staticmethod, classmethod, type, _Descriptor)
    made = (MemberDescriptorType, GetSetDescriptorType)
    if not hasattr(type(value), "__get__") or isinstance(value, (*own, *made)):
        return None
    return (_DataDescriptor if inspect.isdatadescriptor(value) else _Descriptor)(value)


def _guard_hash(plain):
    @functools.wraps(plain)
    def guarded(self):
        if self.scope is not None:
            raise TypeError(f"a bound {type(self).__name__} holds variables and has no hash")
        try:
            return plain(self)
        except TypeError as error:
            raise TypeError(f"a field of {type(self).__name__} has no hash: {error}") from error

    return guarded


if TYPE_CHECKING:

    @dataclass_transform(field_specifiers=(dataclasses.field,))
    class _Fields:
        """Has type checkers read the annotations of modules as dataclass fields."""

        scope: Scope | None
        _state: _State

else:
    _Fields = object


class Module(_Fields):
    """The base of all layers and networks.

    Subclasses declare fields as dataclasses do, and define what they compute in ``__call__``:
    with ``@nn.compact``, or with submodules assigned in ``setup``.

    Args:
        parent: the module that this one belongs to. By default the one that is being called, or
            none.
        name: the name of the module in its parent. By default its class and a number, such as
            'Dense_0'.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class MLP(nn.Module):
        ...     hidden: int
        ...     def setup(self):
        ...         self.first = nn.Dense(self.hidden)
        ...         self.last = nn.Dense(1)
        ...     def __call__(self, x):
        ...         return self.last(nn.relu(self.first(x)))
        >>> model = MLP(16)
        >>> variables = model.init(weft.random.key(0), jnp.ones((4, 3)))
        >>> model.apply(variables, jnp.ones((4, 3))).shape
        (4, 1)
    """

    if TYPE_CHECKING:
        name: str | None = dataclasses.field(kw_only=True, default=None)
        parent: Any = dataclasses.field(kw_only=True, default=None)

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def __init_subclass__(cls, kw_only: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_reserved(cls)
        for name in annotations_of(cls):
            item = cls.__dict__.get(name)
            if isinstance(item, dataclasses.Field) and not item.init:
                item.compare = item.hash = item.repr = False
        unhashed = "__hash__" not in cls.__dict__
        dataclasses.dataclass(unsafe_hash=unhashed, repr=False, kw_only=kw_only)(cls)
        if cls.__hash__ is not None:
            cls.__hash__ = _guard_hash(cls.__hash__)
        known = cls.__dataclass_fields__
        known.update({name: known.pop(name) for name in _OWN_FIELDS if name in known})  # to the end
        fields = dataclasses.fields(cls)
        cls._fields = tuple(f.name for f in fields if f.init and f.name not in _OWN_FIELDS)
        cls._plain_init = all(f.init for f in fields)
        _set_fast_init(cls, fields)
        names = {f.name for f in fields}
        for name, value in list(cls.__dict__.items()):
            if name in names or name in _NEVER_WRAPPED or hasattr(value, "nowrap"):
                continue
            if type(value) is property:
                setattr(cls, name, _Property(value.fget, value.fset, value.fdel, value.__doc__))
            elif callable(value) and not isinstance(value, (type, staticmethod, classmethod)):
                setattr(cls, name, _wrap_method(value))
            elif (guarded := _guard_descriptor(value)) is not None:
                setattr(cls, name, guarded)
        inherited = (vars(base).items() for base in reversed(cls.__mro__))
        scoped = {k: v for items in inherited for k, v in items if hasattr(v, "compact_name_scope")}
        cls._name_scope_methods = scoped

    # making modules

    def __post_init__(self) -> None:
        here = self.__dict__
        here["_id"] = object()
        state = here["_state"] = _State()
        parent = self.parent
        if parent is _unspecified_parent:
            parent = context.modules[-1]
            here["_parent"] = _hold(parent)
        if parent is None:
            return
        if isinstance(parent, Module):
            if parent._state.in_setup and self.name is None:
                return  # it gets its name when it is assigned to an attribute
            self._join(parent)
        elif isinstance(parent, Scope):
            here["scope"] = parent
        else:
            raise ValueError(f"parent must be a Module, a Scope or None, not {parent!r}")
        for name in self._fields:
            value = here[name]
            if type(value) in PLAIN:
                continue
            if holds(value, Module):
                self._register(name, value)
            elif type(value) in (list, dict):
                here[name] = freeze_attribute(value)
        state.ready = True

    def _join(self, parent) -> None:
        """Become a submodule: get a name and a scope under the parent's."""
        theirs, here = parent._state, self.__dict__
        if theirs.ready and not (theirs.in_compact or theirs.in_setup):
            raise errors.AssignSubModuleError(type(self).__name__, type(parent).__name__)
        name = here["name"]
        if name is None:
            prefix = type(self).__name__
            count = theirs.cursor.get(prefix, 0)
            theirs.cursor[prefix] = count + 1
            name = here["name"] = f"{prefix}_{count}"
        scope = parent.scope
        reuse = theirs.in_setup and theirs.setup == TRANSFORMED
        if not scope.try_reserve(name) and not reuse:
            raise errors.NameInUseError("submodule", name, type(parent).__name__)
        theirs.children[name] = self
        here["scope"] = scope.push(name)

    def _register(self, name: str, value) -> None:
        """Store an attribute; modules inside of it that belong to nobody become submodules."""
        root = self.scope.root
        if root.adopted is None:
            root.adopted = weakref.WeakValueDictionary()
        adopted, waiting = root.adopted, []
        keep_names = getattr(type(self), "preserve_adopted_names", False)

        def adopt(suffix, module):
            if module.parent is None:
                known = adopted.get(module._id)
                label = module.name if keep_names or isinstance(module, CompactNameScope) else None
                if known is None:
                    known = adopted[module._id] = module.clone(name=None)
                module = known
            else:
                label = None
            if module.name is None:
                module.parent = self
                module.__dict__["name"] = label or f"{name}{suffix}"
                waiting.append(module)
            return module

        self.__dict__[name] = freeze_attribute(map_inside(adopt, Module, value))
        for module in waiting:
            module.__post_init__()

    def clone(
        self,
        *,
        parent: Any = None,
        _deep_clone: Any = False,
        _reset_names: bool = False,
        **updates: Any,
    ) -> Self:
        """Return an unbound copy, with some fields replaced.

        Args:
            parent: the module that the copy belongs to. By default none.
            **updates: new values of fields.

        Returns:
            A module of the same class.

        Example:
            >>> from weft import linen as nn
            >>> nn.Dense(3).clone(features=4).features
            4
        """
        cls = type(self)
        values = {name: self.__dict__[name] for name in (*cls._fields, "name")}
        if updates:
            unknown = [name for name in updates if name not in values]
            if unknown:
                raise TypeError(f"{cls.__name__} has no field {', '.join(unknown)}")
            values.update(updates)
        if _deep_clone is not False:
            done = {} if _deep_clone is True else _deep_clone
            copy = functools.partial(_deep_copy, done, _reset_names)
            for name in cls._fields:
                if holds(values[name], Module):
                    values[name] = map_inside(copy, Module, values[name])
        return make_module(cls, values, parent)

    def copy(
        self, *, parent: Any = _unspecified_parent, name: str | None = None, **updates: Any
    ) -> Self:
        """Return a copy that belongs to the module being called, with submodules copied too.

        Args:
            parent: the module that the copy belongs to.
            name: the name of the copy.
            **updates: new values of fields.

        Returns:
            A module of the same class.

        Example:
            >>> from weft import linen as nn
            >>> nn.Dense(3).copy(name="other").name
            'other'
        """
        return self.clone(parent=parent, name=name, _deep_clone=True, **updates)

    # attributes

    def __setattr__(self, name, value):
        state = self.__dict__.get("_state")
        if state is None or not (state.in_setup or state.ready):
            object.__setattr__(self, name, value)
        elif state.in_setup:
            if name in self._fields or name in _OWN_FIELDS:
                raise errors.SetAttributeInModuleSetupError(name)
            self._register(name, value)
        elif name.startswith("__"):
            object.__setattr__(self, name, value)
        else:
            raise errors.SetAttributeFrozenModuleError(type(self).__name__, name, value)

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        here = self.__dict__
        if "_state" in here:
            self._try_setup()
            if name in here:
                return here[name]
        text = f"{type(self).__name__} has no attribute {name!r}"
        if here.get("scope") is None:
            text += "; what setup assigns exists inside of init and apply only"
        raise AttributeError(text)

    def __dir__(self):
        self._try_setup()
        return object.__dir__(self)

    def __repr__(self):
        return describe(self)

    def _repr_html_(self) -> str:
        return notebook.html(self, Module)

    def setup(self) -> None:
        """Assign submodules and variables to attributes; runs by itself when the module is used.

        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Net(nn.Module):
        ...     def setup(self):
        ...         self.layer = nn.Dense(2)
        ...     def __call__(self, x):
        ...         return self.layer(x)
        >>> Net().init_with_output(weft.random.key(0), jnp.ones(3))[0].shape
        (2,)
        """

    def _try_setup(self) -> None:
        state = self._state
        if state.setup == DONE or state.in_setup or self.scope is None:
            return
        try:
            state.in_setup = True
            if type(self).setup is not Module.setup:
                self.setup()
            if self._name_scope_methods:
                self.__dict__["_name_scopes"] = self._make_name_scopes()
        finally:
            state.in_setup = False
            state.setup = DONE

    def _make_name_scopes(self):
        made = {}
        for name, method in self._name_scope_methods.items():
            module = CompactNameScope(method.inner_fun, _Reference(self), parent=self, name=name)
            made[name] = module
        return made

    def _bound(self, what: str) -> Scope:
        if self.scope is None:
            raise ValueError(
                f"{type(self).__name__} is unbound and has no {what}: use it inside init or "
                "apply, or bind it with module.bind(variables)"
            )
        return self.scope

    # variables and random streams

    @property
    def variables(self):
        """The variables of a bound module, by collection."""
        return self._bound("variables").populate()

    @property
    def path(self):
        """The names from the top module to this one."""
        return self._bound("path").path

    def _new_name(self, kind: str, name: str, col: str) -> Scope:
        state = self._state
        if state.ready and not (state.in_compact or state.in_setup):
            raise ValueError(
                f"{kind} {name!r} of {type(self).__name__} must be created in setup or in a "
                "method marked with @nn.compact"
            )
        scope = self.scope
        if scope is None:
            scope = self._bound(kind)
        if not scope.try_reserve(name, col):
            raise errors.NameInUseError(kind, name, type(self).__name__)
        return scope

    def variable(
        self,
        col: str,
        name: str,
        init_fn: Callable[..., Any] | None = None,
        *init_args: Any,
        unbox: bool = True,
        **init_kwargs: Any,
    ) -> Variable:
        """Return a variable of a collection, which ``init_fn`` makes where it does not exist.

        Args:
            col: the name of the collection.
            name: the name of the variable.
            init_fn: the function that returns the first value. None if the variable must exist.
            *init_args: the arguments of ``init_fn``.
            unbox: return the value inside of a box that names axes.
            **init_kwargs: the keyword arguments of ``init_fn``.

        Returns:
            A ``Variable``: read or assign its ``value``.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> class Counter(nn.Module):
            ...     @nn.compact
            ...     def __call__(self):
            ...         return self.variable("state", "count", lambda: jnp.array(0)).value
            >>> int(Counter().init_with_output(weft.random.key(0))[0])
            0
        """
        scope = self._new_name("variable", name, col)
        made = scope.variable(col, name, init_fn, *init_args, unbox=unbox, **init_kwargs)
        self._state.children[name] = col
        return made

    @overload
    def param(
        self,
        name: str,
        init_fn: Callable[..., _T],
        *init_args: Any,
        unbox: Literal[True] = True,
        **init_kwargs: Any,
    ) -> _T: ...
    @overload
    def param(
        self,
        name: str,
        init_fn: Callable[..., Any],
        *init_args: Any,
        unbox: bool,
        **init_kwargs: Any,
    ) -> Any: ...
    def param(
        self,
        name: str,
        init_fn: Callable[..., Any],
        *init_args: Any,
        unbox: bool = True,
        **init_kwargs: Any,
    ) -> Any:
        """Return a parameter, made by ``init_fn(key, *init_args)`` where it does not exist.

        Args:
            name: the name of the parameter.
            init_fn: the initialiser, a function of a key and ``init_args``.
            *init_args: the arguments of ``init_fn``.
            unbox: return the value inside of a box that names axes.
            **init_kwargs: the keyword arguments of ``init_fn``.

        Returns:
            The value of the parameter.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> class Scale(nn.Module):
            ...     @nn.compact
            ...     def __call__(self, x):
            ...         return x * self.param("scale", nn.initializers.ones, x.shape)
            >>> Scale().init(weft.random.key(0), jnp.ones(2))["params"]["scale"]
            Array([1., 1.], dtype=float32)
        """
        scope = self._new_name("param", name, "params")
        value = scope.param(name, init_fn, *init_args, unbox=unbox, **init_kwargs)
        self._state.children[name] = "params"
        return value

    def has_variable(self, col: str, name: str) -> bool:
        """Return whether a variable exists.

        Args:
            col: the name of the collection.
            name: the name of the variable.

        Returns:
            True or False.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> bound = nn.Dense(2).bind({"params": {"kernel": jnp.ones((3, 2))}})
            >>> bound.has_variable("params", "kernel"), bound.has_variable("params", "bias")
            (True, False)
        """
        return self._bound("variables").has_variable(col, name)

    def get_variable(self, col: str, name: str, default: Any = None) -> Any:
        """Return the value of a variable, or the default.

        Args:
            col: the name of the collection.
            name: the name of the variable.
            default: the result where the variable does not exist.

        Returns:
            The value.

        Example:
            >>> import weft.numpy as jnp
            >>> from weft import linen as nn
            >>> nn.Dense(2).bind({"params": {"bias": jnp.ones(2)}}).get_variable("params", "bias")
            Array([1., 1.], dtype=float32)
        """
        return self._bound("variables").get_variable(col, name, default)

    def put_variable(self, col: str, name: str, value: Any) -> None:
        """Write a variable of a mutable collection.

        Args:
            col: the name of the collection.
            name: the name of the variable.
            value: the new value.

        Example:
            >>> import weft.numpy as jnp
            >>> from weft import linen as nn
            >>> bound = nn.Dense(2).bind({"params": {"bias": jnp.ones(2)}}, mutable=True)
            >>> bound.put_variable("params", "bias", jnp.zeros(2))
            >>> bound.variables["params"]["bias"]
            Array([0., 0.], dtype=float32)
        """
        self._bound("variables").put_variable(col, name, value)

    def is_mutable_collection(self, col: str) -> bool:
        """Return whether variables of a collection may be written.

        Args:
            col: the name of the collection.

        Returns:
            True or False.

        Example:
            >>> from weft import linen as nn
            >>> nn.Dense(2).bind({}, mutable=["cache"]).is_mutable_collection("cache")
            True
        """
        return self._bound("collections").is_mutable_collection(col)

    def has_rng(self, name: str) -> bool:
        """Return whether a random stream was given.

        Args:
            name: the name of the stream.

        Returns:
            True or False.

        Example:
            >>> import weft
            >>> from weft import linen as nn
            >>> nn.Dense(2).bind({}, rngs={"dropout": weft.random.key(0)}).has_rng("dropout")
            True
        """
        return self._bound("random streams").has_rng(name)

    def make_rng(self, name: str = "params") -> weft.Array:
        """Return the next key of a random stream.

        Args:
            name: the name of the stream.

        Returns:
            A random key, a different one at each call.

        Example:
            >>> import weft
            >>> from weft import linen as nn
            >>> nn.Dense(2).bind({}, rngs={"dropout": weft.random.key(0)}).make_rng("dropout").shape
            ()
        """
        return self._bound("random streams").make_rng(name)

    def is_initializing(self) -> bool:
        """Return whether the module runs inside of ``init``.

        Returns:
            True or False.

        Example:
            >>> from weft import linen as nn
            >>> nn.Dense(2).bind({}).is_initializing()
            False
        """
        return "initializing" in self._bound("init or apply call").flags

    def sow(
        self,
        col: str,
        name: str,
        value: Any,
        reduce_fn: Callable[..., Any] = lambda xs, x: (*xs, x),
        init_fn: Callable[..., Any] = tuple,
    ) -> bool:
        """Collect a value in a collection, if that is mutable.

        Args:
            col: the name of the collection.
            name: the name under which to collect it.
            value: the value.
            reduce_fn: combines what was collected before with the value. By default a tuple grows.
            init_fn: returns what to start from.

        Returns:
            Whether the collection is mutable.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> class Net(nn.Module):
            ...     def __call__(self, x):
            ...         self.sow("intermediates", "input", x)
            ...         return x
            >>> Net().apply({}, 1.0, mutable=["intermediates"])[1]
            {'intermediates': {'input': (1.0,)}}
        """
        scope = self._bound("variables")
        if not scope.is_mutable_collection(col):
            return False
        if scope.has_variable(col, name):
            collected = scope.get_variable(col, name)
        else:
            scope.reserve(name, col)
            self._state.children[name] = col
            collected = init_fn()
        scope.put_variable(col, name, reduce_fn(collected, value))
        return True

    def perturb(self, name: str, value: Any, collection: str = "perturbations") -> Any:
        """Return a value plus a variable of zeros, whose gradient is that of the value.

        Args:
            name: the name of the variable.
            value: the value.
            collection: the collection of the variable.

        Returns:
            The value.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> class Net(nn.Module):
            ...     def __call__(self, x):
            ...         return self.perturb("middle", x) * 3.0
            >>> sorted(Net().init(weft.random.key(0), jnp.ones(2)))
            ['perturbations']
        """
        scope = self._bound("variables")
        if scope.is_mutable_collection(collection) and not scope.has_variable(collection, name):
            scope.reserve(name, collection)
            self._state.children[name] = collection
            scope.put_variable(collection, name, tree_util.tree_map(jnp.zeros_like, value))
        if collection not in scope.root.variables_here:
            return value
        if not scope.has_variable(collection, name):
            raise ValueError(
                f"the collection {collection!r} has no {name!r} for {scope.path_text!r}"
            )
        return tree_util.tree_map(jnp.add, value, scope.get_variable(collection, name))

    def tabulate(self, rngs: Any, *args: Any, **options: Any) -> str:
        """Return a table of the submodules as text; ``weft.linen.tabulate`` explains the options.

        Args:
            rngs: a random key, or a dictionary of keys by the name of their stream, such as
                ``{"params": key, "dropout": key}``.
            *args: the arguments of the method.
            **options: options of ``weft.linen.tabulate``, and keyword arguments of the module.

        Returns:
            The table.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> "kernel" in nn.Dense(2).tabulate(weft.random.key(0), jnp.ones(3))
            True
        """
        names = "depth show_repeated mutable console_kwargs table_kwargs column_kwargs "
        names += "compute_flops compute_vjp_flops compute_time"
        ours = {name: options.pop(name) for name in names.split() if name in options}
        return weft.linen.tabulate(self, rngs, **ours)(*args, **options)

    def module_paths(
        self,
        rngs: Any,
        *args: Any,
        show_repeated: bool = False,
        mutable: Any = ALL_BUT_INTERMEDIATES,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return the submodules by their path, as unbound modules.

        Args:
            rngs: a random key, or a dictionary of keys by the name of their stream, such as
                ``{"params": key, "dropout": key}``.
            *args: the arguments of the method.
            show_repeated: list a submodule again for each call.
            mutable: the collections that may be written: True for all, a name, names, or a
                ``DenyList``.
            **kwargs: the keyword arguments of the method.

        Returns:
            A dictionary from paths such as 'encoder/Dense_0' to modules.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> model = nn.Sequential([nn.Dense(2), nn.relu])
            >>> sorted(model.module_paths(weft.random.key(0), jnp.ones(3)))
            ['', 'layers_0']
        """
        options = {"mutable": mutable, **kwargs}
        table = weft.linen.summary.module_table
        rows, _ = table(self, rngs, args, options, show_repeated=show_repeated)
        return {"/".join(row.path): row.module_copy for row in rows}

    # init and apply

    def bind(self, variables: Any, *args: Any, rngs: Any = None, mutable: Any = False) -> Self:
        """Return a copy of the module that holds its variables, for interactive use.

        Args:
            variables: the variables, by collection.
            *args: not used.
            rngs: a random key, or a dictionary of keys by the name of their stream, such as
                ``{"params": key, "dropout": key}``.
            mutable: the collections that may be written: True for all, a name, names, or a
                ``DenyList``.

        Returns:
            A bound module, whose methods can be called directly.

        Example:
            >>> import weft.numpy as jnp
            >>> from weft import linen as nn
            >>> layer = nn.Dense(1, use_bias=False).bind({"params": {"kernel": jnp.ones((3, 1))}})
            >>> layer(jnp.ones(3))
            Array([3.], dtype=float32)
        """
        _check_instance(self)
        scope = root_scope(variables, as_streams(rngs, "bind"), mutable)
        return self.clone(parent=scope, _deep_clone=True)

    def unbind(self) -> tuple[Self, dict[str, Any]]:
        """Return the module without its variables, and the variables.

        Returns:
            A pair of an unbound module and its variables.

        Example:
            >>> import weft.numpy as jnp
            >>> from weft import linen as nn
            >>> module, variables = nn.Dense(1).bind({"params": {"bias": jnp.ones(1)}}).unbind()
            >>> variables
            {'params': {'bias': Array([1.], dtype=float32)}}
        """
        _check_instance(self)
        if self.scope is None:
            raise errors.CallUnbindOnUnboundModuleError(type(self).__name__)
        return self.clone(_deep_clone=True, _reset_names=True, name=None), self.variables

    def apply(
        self,
        variables: Any,
        *args: Any,
        rngs: Any = None,
        method: Any = None,
        mutable: Any = False,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> Any:
        """Return the result of calling the module, or one of its methods, with given variables.

        Args:
            variables: the variables, by collection, as ``init`` returns them.
            *args: the arguments of the method.
            rngs: the keys of random streams, such as ``{"dropout": key}``.
            method: the method to call, by its name or as a function of the module. By default
                ``__call__``.
            mutable: the collections that may be written: True for all, a name, names, or a
                ``DenyList``.
            capture_intermediates: collect the outputs of submodules in 'intermediates': True, or a
                function of a module and a method's name that says which.
            **kwargs: the keyword arguments of the method.

        Returns:
            The output; with ``mutable`` a pair of it and the collections that may have changed.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> layer = nn.Dense(2)
            >>> variables = layer.init(weft.random.key(0), jnp.ones((1, 3)))
            >>> layer.apply(variables, jnp.ones((5, 3))).shape
            (5, 2)
        """
        _check_instance(self)
        fn = _find_method(self, method)
        return apply(fn, self, mutable, capture_intermediates)(
            variables, *args, rngs=rngs, **kwargs
        )

    def init_with_output(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: Any = ALL_BUT_INTERMEDIATES,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> tuple[Any, dict[str, Any]]:
        """Return the output of a call, and the variables that it made.

        Args:
            rngs: a random key, or a dictionary of keys by the name of their stream, such as
                ``{"params": key, "dropout": key}``.
            *args: the arguments of the method.
            method: the method to call, by its name or as a function of the module. By default
                ``__call__``.
            mutable: the collections that may be written: True for all, a name, names, or a
                ``DenyList``.
            capture_intermediates: collect the outputs of submodules in 'intermediates': True, or a
                function of a module and a method's name that says which.
            **kwargs: the keyword arguments of the method.

        Returns:
            A pair of the output and the variables, by collection.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> y, variables = nn.Dense(2).init_with_output(weft.random.key(0), jnp.ones((1, 3)))
            >>> y.shape
            (1, 2)
        """
        _check_instance(self)
        fn = _find_method(self, method)
        return init_with_output(fn, self, mutable, capture_intermediates)(rngs, *args, **kwargs)

    def init(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: Any = ALL_BUT_INTERMEDIATES,
        capture_intermediates: Any = False,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return new variables, made by calling the module with these arguments.

        Args:
            rngs: a random key, or a dictionary of keys by the name of their stream, such as
                ``{"params": key, "dropout": key}``.
            *args: the arguments of the method.
            method: the method to call, by its name or as a function of the module. By default
                ``__call__``.
            mutable: the collections that may be written: True for all, a name, names, or a
                ``DenyList``.
            capture_intermediates: collect the outputs of submodules in 'intermediates': True, or a
                function of a module and a method's name that says which.
            **kwargs: the keyword arguments of the method.

        Returns:
            The variables, nested dictionaries by collection; parameters are in 'params'.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> variables = nn.Dense(2).init(weft.random.key(0), jnp.ones((1, 3)))
            >>> weft.tree.map(jnp.shape, variables)
            {'params': {'bias': (2,), 'kernel': (3, 2)}}
        """
        _check_instance(self)
        fn = _find_method(self, method)
        return init(fn, self, mutable, capture_intermediates)(rngs, *args, **kwargs)

    def lazy_init(
        self,
        rngs: Any,
        *args: Any,
        method: Any = None,
        mutable: Any = ALL_BUT_INTERMEDIATES,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Return new variables from arguments of which only shape and dtype are known.

        Args:
            rngs: a random key, or a dictionary of keys by the name of their stream, such as
                ``{"params": key, "dropout": key}``.
            *args: the arguments of the method, arrays or ``weft.ShapeDtypeStruct``.
            method: the method to call, by its name or as a function of the module. By default
                ``__call__``.
            mutable: the collections that may be written: True for all, a name, names, or a
                ``DenyList``.
            **kwargs: the keyword arguments of the method.

        Returns:
            The variables, by collection.

        Example:
            >>> import weft, weft.numpy as jnp
            >>> from weft import linen as nn
            >>> x = weft.ShapeDtypeStruct((1, 4), jnp.float32)
            >>> nn.Dense(2).lazy_init(weft.random.key(0), x)["params"]["kernel"].shape
            (4, 2)
        """
        is_type = lambda x: isinstance(x, weft.ShapeDtypeStruct)
        leaves, tree = tree_util.tree_flatten((args, kwargs), is_leaf=is_type)
        types = [leaf for leaf in leaves if is_type(leaf)]

        def run(rngs, unknown):
            rest = iter(unknown)
            given = [next(rest) if is_type(leaf) else leaf for leaf in leaves]
            args, kwargs = tree_util.tree_unflatten(tree, given)
            return self.init(rngs, *args, method=method, mutable=mutable, **kwargs)

        try:
            return compute_known(run, rngs, types)
        except Unknown as error:
            raise errors.LazyInitError(f"the variables from {error}") from None


# `parent` and `name` are declared once, keyword-only; subclasses inherit them as fields. The
# default of `parent` is in the field, its value behind a weak reference.
Module.__annotations__.update(parent=object, name=str | None)
Module.parent = dataclasses.field(default=_unspecified_parent, repr=False, kw_only=True)
Module.name = dataclasses.field(default=None, kw_only=True)
dataclasses.dataclass(unsafe_hash=True, repr=False)(Module)
Module.__hash__ = _guard_hash(Module.__hash__)
Module.parent = _Parent()
Module.scope = None
Module._fields, Module._plain_init, Module._name_scope_methods = (), True, {}


def _hold(parent):
    return weakref.ref(parent) if isinstance(parent, Module) else parent


def _set_fast_init(cls, fields) -> None:
    """Replace the dataclass's ``__init__`` by one that does not assign field by field.

    Layers are made anew at every call, and ``__setattr__`` of modules is slow.
    """
    plain = cls.__init__
    code = getattr(plain, "__code__", None)
    count = code.co_argcount + code.co_kwonlyargcount if code is not None else 0
    simple = all(f.init and f.default_factory is dataclasses.MISSING for f in fields)
    if not simple or count != len(fields) + 1 or "__init__" not in cls.__dict__:
        return
    names = code.co_varnames[1:count]
    positional, keyword = names[: code.co_argcount - 1], names[code.co_argcount - 1 :]
    stores = [f"    here[{name!r}] = {name}" for name in names if name != "parent"]
    text = [
        f"def __init__(self, {', '.join([*positional, '*', *keyword])}):",
        "    here = self.__dict__",
        *stores,
        "    here['_parent'] = parent if parent is unspecified else hold(parent)",
        "    self.__post_init__()",
    ]
    space = {"unspecified": _unspecified_parent, "hold": _hold}
    exec(compile("\n".join(text), f"<weft {cls.__qualname__}>", "exec"), space)
    made = functools.wraps(plain)(space["__init__"])
    made.__defaults__, made.__kwdefaults__ = plain.__defaults__, plain.__kwdefaults__
    cls.__init__ = made


def _check_reserved(cls) -> None:
    own = annotations_of(cls)
    fine = ("str", str, str | None, "str | None", "Optional[str]")
    if "parent" in own or ("name" in own and own["name"] not in fine):
        raise errors.ReservedModuleAttributeError({k: own[k] for k in _OWN_FIELDS if k in own})
    if "name" in own:
        cls.__annotations__ = {k: v for k, v in own.items() if k != "name"}


def _check_instance(module) -> None:
    if not isinstance(module, Module):
        raise errors.InvalidInstanceModuleError()
    if "_id" not in module.__dict__:
        raise errors.IncorrectPostInitOverrideError(type(module).__name__)


def make_module(cls, values: dict, parent):
    """A module with these values for all of its fields."""
    if not cls._plain_init:
        return cls(**values, parent=parent)
    made = object.__new__(cls)
    made.__dict__.update(values)
    made.parent = parent
    made.__post_init__()
    return made


def _deep_copy(done: dict, reset_names: bool, _suffix, module):
    if module._id not in done:
        renamed = {"name": None} if reset_names else {}
        options = {"_deep_clone": done, "_reset_names": reset_names}
        done[module._id] = module.clone(**options, **renamed)
    return done[module._id]


class _Reference:
    """The module that a method with its own name scope belongs to, without keeping it alive."""

    def __init__(self, module):
        self.module = weakref.ref(module)

    def __call__(self):
        return self.module()


class CompactNameScope(Module):
    """The scope of a method marked with ``compact_name_scope``."""

    fn: object
    module_fn: object

    @compact
    def __call__(self, *args, **kwargs):
        return self.fn(self.module_fn(), *args, **kwargs)


def _find_method(module, method):
    """The function behind ``method``: None, a name, a method, or a function of a module."""
    if method is None:
        if not callable(module):
            name = type(module).__name__
            raise AttributeError(f"{name} has no __call__: define it, or pass method=")
        return type(module).__call__
    if isinstance(method, str):
        found = getattr(module, method)
        if not callable(found):
            kind = type(found).__name__
            raise TypeError(f"{type(module).__name__}.{method} is a {kind} and cannot be called")
        if isinstance(found, Module):
            name = method
            return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)
        method = found
    return unbound_function(method)


def unbound_function(method):
    """The function behind a method; others must at least take the module."""
    if isinstance(method, MethodType) and isinstance(method.__self__, Module):
        return method.__func__
    if not callable(method) or len(inspect.signature(method).parameters) < 1:
        raise errors.ApplyModuleInvalidMethodError(method)
    return method


def _runner(fn, module, mutable, capture, flags):
    """What ``apply`` and ``init`` have in common: run a function on a clone with a new scope."""
    if capture is True:
        capture = lambda _, name: name == "__call__"
    if capture:
        mutable = union_filters(mutable, "intermediates")

    def run(variables, streams, args, kwargs):
        scope = root_scope(variables, streams, mutable, flags)
        context.captures.append(capture)
        try:
            out = fn(module.clone(parent=scope, _deep_clone=True), *args, **kwargs)
        finally:
            context.captures.pop()
            scope.invalid = True
        if mutable is False:
            return out
        changed = scope.mutable_variables()
        check_not_escaped(changed)
        return out, changed

    return run


def apply(
    fn: Callable[..., Any], module: Any, mutable: Any = False, capture_intermediates: Any = False
) -> Callable[..., Any]:
    """Return a function of (variables, ...) from a function of (bound module, ...).

    Args:
        fn: a function whose first argument is the bound module.
        module: the module.
        mutable: the collections that may be written: True for all, a name, names, or a
            ``DenyList``.
        capture_intermediates: collect the outputs of submodules in 'intermediates': True, or a
            function of a module and a method's name that says which.

    Returns:
        A function that takes variables, the other arguments of ``fn``, and ``rngs=``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> layer = nn.Dense(2)
        >>> variables = layer.init(weft.random.key(0), jnp.ones(3))
        >>> nn.apply(lambda module, x: module(x) * 2, layer)(variables, jnp.ones(3)).shape
        (2,)
    """
    run = _runner(fn, module, mutable, capture_intermediates, ())

    @functools.wraps(fn)
    def applied(variables, *args, rngs=None, **kwargs):
        return run(variables, as_streams(rngs, "apply"), args, kwargs)

    return applied


def init_with_output(
    fn: Callable[..., Any],
    module: Any,
    mutable: Any = ALL_BUT_INTERMEDIATES,
    capture_intermediates: Any = False,
) -> Callable[..., Any]:
    """Return a function of (key, ...) that returns the output of ``fn`` and new variables.

    Args:
        fn: a function whose first argument is the bound module.
        module: the module.
        mutable: the collections that may be written: True for all, a name, names, or a
            ``DenyList``.
        capture_intermediates: collect the outputs of submodules in 'intermediates': True, or a
            function of a module and a method's name that says which.

    Returns:
        A function that takes the keys of random streams and the other arguments of ``fn``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> make = nn.init_with_output(lambda module, x: module(x), nn.Dense(2))
        >>> make(weft.random.key(0), jnp.ones(3))[0].shape
        (2,)
    """
    run = _runner(fn, module, mutable, capture_intermediates, ("initializing",))

    @functools.wraps(fn)
    def initialized(rngs, *args, **kwargs):
        if rngs is None:
            as_streams((), "init")
        out = run({}, as_streams(rngs, "init"), args, kwargs)
        return out if mutable is not False else (out, {})

    return initialized


def init(
    fn: Callable[..., Any],
    module: Any,
    mutable: Any = ALL_BUT_INTERMEDIATES,
    capture_intermediates: Any = False,
) -> Callable[..., Any]:
    """Return a function of (key, ...) that returns new variables.

    Args:
        fn: a function whose first argument is the bound module.
        module: the module.
        mutable: the collections that may be written: True for all, a name, names, or a
            ``DenyList``.
        capture_intermediates: collect the outputs of submodules in 'intermediates': True, or a
            function of a module and a method's name that says which.

    Returns:
        A function that takes the keys of random streams and the other arguments of ``fn``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> make = nn.init(lambda module, x: module(x), nn.Dense(2))
        >>> sorted(make(weft.random.key(0), jnp.ones(3))["params"])
        ['bias', 'kernel']
    """
    make = init_with_output(fn, module, mutable, capture_intermediates)

    @functools.wraps(fn)
    def initialized(*args, **kwargs):
        return make(*args, **kwargs)[1]

    return initialized


def merge_param(name: str, a: _T | None, b: _T | None) -> _T:
    """Return an argument that is given to the constructor or to the call, but not to both.

    Args:
        name: the name of the argument, for errors.
        a: what the constructor got, or None.
        b: what the call got, or None.

    Returns:
        The one that is not None.

    Example:
        >>> from weft import linen as nn
        >>> nn.merge_param("train", None, True)
        True
    """
    if a is None and b is None:
        raise ValueError(f"{name!r} must be given, to the constructor or at the call")
    if a is not None and b is not None:
        raise ValueError(f"{name!r} was given to the constructor and at the call: give it once")
    return b if a is None else a


def share_scope(module: Module, other: Module, /) -> None:
    """Let two modules keep their variables in one scope, that of the outer one.

    Args:
        module: a bound module.
        other: another bound module, usually one inside of the first.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Outer(nn.Module):
        ...     def setup(self):
        ...         self.inner = nn.Dense(2)
        ...         nn.share_scope(self, self.inner)
        ...     def __call__(self, x):
        ...         return self.inner(x)
        >>> sorted(Outer().init(weft.random.key(0), jnp.ones(3))["params"])
        ['bias', 'kernel']
    """
    if module.scope is None or other.scope is None:
        raise errors.CallShareScopeOnUnboundModuleError()
    above = other.scope
    while above is not None and above is not module.scope:
        above = above.parent
    changed, scope = (other, module.scope) if above is not None else (module, other.scope)
    before = changed.scope
    changed.__dict__["scope"] = scope
    for child in changed._state.children.values():
        if isinstance(child, Module) and child.scope and child.scope.parent is before:
            scope.reserve(child.scope.name)
            child.scope.parent = scope
