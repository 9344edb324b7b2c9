"""Lifted transformations: jit, vmap, scan, remat and the like, of modules and their methods.

Applied to a module's class they return a class; applied to a function whose first argument is a
module, a function. The work on collections and random streams is in ``lift.py``.
"""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar, overload

import weft
from weft import tree_util
from weft.linen import errors, lift
from weft.linen.attributes import holds, map_inside
from weft.linen.context import naming
from weft.linen.core import FrozenDict
from weft.linen.meta import add_axis, remove_axis
from weft.linen.module import Module, _wrap_method, make_module, profile_name, unbound_function
from weft.linen.scope import LazyRng, Variable
from weft.typing import ArrayLike

_T = TypeVar("_T")
_R = TypeVar("_R")
_S = TypeVar("_S")
_P = ParamSpec("_P")
_F = TypeVar("_F", bound=Callable[..., Any])

_HANDLES = (Module, Variable)
_NOTHING = FrozenDict()
_ALL_ALONG_0, _ALL_SPLIT = FrozenDict({True: 0}), FrozenDict({True: True})


class _Place:
    """A module or variable among the arguments of a transformed function: static, no leaves."""

    def __init__(self, position: int, key=None):
        self.position, self.key = position, key


tree_util.register_pytree_node(
    _Place, lambda x: ((), (x.position, x.key)), lambda aux, _: _Place(*aux)
)


class _Handles:
    """Bound modules and variables of a call, and the scopes that stand for them."""

    def __init__(self, module, args, kwargs, keyed: bool):
        self.things, self.scopes, self.positions = [], [], {}
        self.keyed = keyed
        self.args, self.kwargs = tree_util.tree_map(self._replace, (args, kwargs))
        self._gather(module)

    def _replace(self, x):
        if not isinstance(x, _HANDLES) or x.scope is None:
            return x
        self._gather(x)
        self.things.append(x)
        return _Place(len(self.things) - 1, fingerprint(x) if self.keyed else None)

    def _gather(self, x):
        if x._id in self.positions:
            return
        if isinstance(x, Module):
            for name in x._fields:
                value = x.__dict__[name]
                map_inside(lambda _, inner: self._inner(inner), _HANDLES, value)
        self.positions[x._id] = len(self.scopes)
        self.scopes.append(x.scope)

    def _inner(self, x):
        if x.scope is not None:
            self._gather(x)
        return x

    def rebind(self, module, cls, scopes, args, kwargs):
        """The module and arguments with new scopes."""
        done = {}

        def again(x, cls=None):
            if x.scope is None:
                return x
            if x._id in done:
                return done[x._id]
            scope = scopes[self.positions[x._id]]
            if isinstance(x, Variable):
                made = Variable(scope, x.collection, x.name, x.unbox)
            else:
                values = {name: x.__dict__[name] for name in (*type(x)._fields, "name")}
                for name, value in values.items():
                    if holds(value, _HANDLES):
                        values[name] = map_inside(lambda _, y: again(y), _HANDLES, value)
                made = make_module(cls or type(x), values, scope)
            done[x._id] = made
            return made

        is_place = lambda x: isinstance(x, _Place)
        back = lambda x: again(self.things[x.position]) if is_place(x) else x
        args, kwargs = tree_util.tree_map(back, (args, kwargs), is_leaf=is_place)
        return again(module, cls), args, kwargs


def _check_result(out, name) -> None:
    if any(isinstance(leaf, _HANDLES) for leaf in tree_util.tree_leaves(out)):
        raise errors.TransformedMethodReturnValueError(name)


def _core(handles, module, cls, fn, name):
    """A function of scopes from a function of a module."""
    state = module._state.export()

    def run(scopes, *args, **kwargs):
        scopes = scopes if isinstance(scopes, list) else [scopes]
        inner, args, kwargs = handles.rebind(module, cls, scopes, args, kwargs)
        inner.__dict__["_state"] = state.export()
        out = fn(inner, *args, **kwargs)
        module._state.reimport(inner._state)
        _check_result(out, name)
        return out

    run.__name__ = name
    return run


def _plain_call(transform, functions, cls, settings, name):
    """A method that transforms ``functions`` anew at each call."""

    def method(self, *args, **kwargs):
        if self.scope is None:
            raise errors.CallCompactUnboundModuleError(type(self).__name__)
        handles = _Handles(self, args, kwargs, keyed=False)
        cores = [_core(handles, self, cls, fn, name) for fn in functions]
        run = transform(*cores, **settings)
        return run(handles.scopes, *handles.args, **handles.kwargs)

    return method


def _cached_call(transform, function, cls, settings, name):
    """A method that is transformed once, and finds the call it is in by a stack."""
    calls: list = []

    def core(scopes, _key, *args, **kwargs):
        return calls[-1](scopes, *args, **kwargs)

    core.__name__ = name
    run = transform(core, **settings)

    def method(self, *args, **kwargs):
        if self.scope is None:
            raise errors.CallCompactUnboundModuleError(type(self).__name__)
        with _forked_rngs(self):
            handles = _Handles(self, args, kwargs, keyed=True)
            calls.append(_core(handles, self, cls, function, name))
            try:
                return run(handles.scopes, fingerprint(self), *handles.args, **handles.kwargs)
            finally:
                calls.pop()

    return method


@contextmanager
def _forked_rngs(module):
    """Streams that start anew from a key of their own, so that compiled code depends on no path."""
    before = module.scope.rngs
    module.scope.rngs = {name: LazyRng(module.make_rng(name)) for name in before}
    try:
        yield
    finally:
        module.scope.rngs = before


def fingerprint(x):
    """A hashable value that is equal for modules that compute the same from the same variables."""
    return _fingerprint(x, {}, ())


def _fingerprint(x, seen: dict, path: tuple):
    inside = lambda value, name: _fingerprint(value, seen, (*path, str(name)))
    if isinstance(x, Module):
        if x._id in seen:
            return type(x), seen[x._id]
        seen[x._id] = len(seen)
        fields = tuple((name, inside(x.__dict__[name], name)) for name in x._fields)
        state, scope = x._state, x.scope
        what = (state.in_compact, state.in_setup, state.setup, tuple(state.cursor.items()))
        if scope is None:
            return type(x), fields, what, None
        counts = tuple(sorted(scope.counters.flat().items()))
        names = tuple(sorted((name, tuple(map(str, c))) for name, c in scope.reserved.items()))
        mutable = lift.hashable_filter(scope.mutable)
        return type(x), fields, what, (mutable, scope.flags, counts, names)
    if isinstance(x, Variable):
        return x.collection, x.name, x.unbox, x.scope.path
    if isinstance(x, Mapping):
        return tuple((key, inside(value, key)) for key, value in x.items())
    if isinstance(x, (list, tuple)):
        return type(x), tuple(inside(value, i) for i, value in enumerate(x))
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = dataclasses.fields(x)
        return type(x), tuple((f.name, inside(getattr(x, f.name), f.name)) for f in fields)
    try:
        hash(x)
    except TypeError as error:
        where = "/".join(path)
        raise ValueError(
            f"the field {where!r} has no hash, so nn.jit cannot cache: {error}"
        ) from error
    return x


def _is_module_class(target) -> bool:
    if isinstance(target, functools.partial):
        return _is_module_class(target.func)
    return inspect.isclass(target) and issubclass(target, Module)


def _methods_and_settings(methods, settings):
    if methods is None:
        return {"__call__": settings}
    if isinstance(methods, (list, tuple)):
        return dict.fromkeys(methods, settings)
    if isinstance(methods, dict):
        return methods
    raise ValueError(f"methods must be None, a list of names, or a dictionary, not {methods!r}")


def _lift_class(make, transform, target, methods, settings):
    given = target if isinstance(target, functools.partial) else None
    cls = target.func if given is not None else target
    made = {}
    for name, options in _methods_and_settings(methods, settings).items():
        fn = getattr(cls, name)
        made[name] = functools.wraps(fn)(make(transform, fn, cls, options, name))
    title = transform.__name__.capitalize() + cls.__name__
    made["__doc__"], made["__module__"] = cls.__doc__, cls.__module__
    new = type(title, (cls,), made)
    return new if given is None else functools.partial(new, *given.args, **given.keywords)


def _lift(transform, target, methods=None, cached=False, **settings):
    """The class or function with a transformation around its methods.

    ``settings`` are the transformation's own, all that its caller was given.
    """
    if cached:
        make = _cached_call
    else:
        make = lambda transform, fn, *rest: _plain_call(transform, (fn,), *rest)
    if _is_module_class(target):
        return _lift_class(make, transform, target, methods, settings)
    if not callable(target) or isinstance(target, Module):
        raise errors.TransformTargetError(target)
    fn = _wrap_method(target)
    name = getattr(target, "__name__", "function")
    return functools.wraps(fn)(make(transform, fn, None, settings, name))


def _lift_direct(transform, targets, module, *args, single=False, **settings):
    """Transform functions of a module, and call them at once."""
    for target in targets:
        if _is_module_class(target) or not callable(target):
            raise ValueError(
                f"{transform.__name__} takes functions or methods of a module, such as "
                f"lambda mdl, x: mdl(x), not {target!r}"
            )
    functions = [_wrap_method(unbound_function(target)) for target in targets]
    name = getattr(functions[0], "__name__", "function")

    def together(*cores):
        def run(scopes, *args):
            if single and len(scopes) != 1:
                raise NotImplementedError(
                    f"{transform.__name__} takes one module, without modules in its fields or "
                    "arguments"
                )
            return transform(*cores, scopes, *args, **settings)

        return run

    return _plain_call(together, functions, None, {}, name)(module, *args)


def jit(
    target: _T,
    variables: Any = True,
    rngs: Any = True,
    static_argnums: Any = (),
    static_argnames: Any = (),
    donate_argnums: Any = (),
    device: Any = None,
    backend: Any = None,
    methods: Any = None,
) -> _T:
    """Return a module whose methods are compiled, also when called outside of ``weft.jit``.

    Args:
        target: a module class, or a function whose first argument is a module.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.
        static_argnums: the positions of arguments that are compile-time constants; the module is
            not counted.
        static_argnames: the names of keyword arguments that are compile-time constants.
        donate_argnums: the positions of arguments whose memory may be reused.
        device: the device to run on. By default that of the arguments.
        backend: accepted for flax, as in ``weft.jit``.
        methods: the methods of a class to transform. By default ``__call__``.

    Returns:
        A class with the same fields, or a function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> layer = nn.jit(nn.Dense)(2)
        >>> layer.init(weft.random.key(0), jnp.ones(3))["params"]["kernel"].shape
        (3, 2)
    """
    return _lift(lift.jit, cached=True, **locals())


def vmap(
    target: _T,
    variable_axes: Mapping[Any, Any] = _NOTHING,
    split_rngs: Mapping[Any, bool] = _NOTHING,
    in_axes: Any = 0,
    out_axes: Any = 0,
    axis_size: int | None = None,
    axis_name: Any = None,
    spmd_axis_name: Any = None,
    metadata_params: Mapping[Any, Any] = _NOTHING,
    methods: Any = None,
) -> _T:
    """Return a module batched over an axis of its inputs and of some of its variables.

    Args:
        target: a module class, or a function whose first argument is a module.
        variable_axes: the axis of each collection that is split: an integer, ``In`` or ``Out`` of
            one, by the collection's name.
        split_rngs: for each random stream, whether every element gets a key of its own.
        in_axes: the axis of each argument, or None for arguments that all elements share.
        out_axes: the axis of each output.
        axis_size: the size of the axis. By default that of the arguments.
        axis_name: the name of the axis, for collectives.
        spmd_axis_name: the mesh axis along which the batch is divided.
        metadata_params: what boxed variables should know of the new axis, such as
            ``{nn.PARTITION_NAME: "layers"}``.
        methods: the methods of a class to transform. By default ``__call__``.

    Returns:
        A class with the same fields, or a function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> Many = nn.vmap(nn.Dense, variable_axes={"params": 0}, split_rngs={"params": True})
        >>> Many(2).init(weft.random.key(0), jnp.ones((5, 3)))["params"]["kernel"].shape
        (5, 3, 2)
    """
    return _lift(lift.vmap, **locals())


def scan(
    target: _T,
    variable_axes: Mapping[Any, Any] = _NOTHING,
    variable_broadcast: Any = False,
    variable_carry: Any = False,
    split_rngs: Mapping[Any, bool] = _NOTHING,
    in_axes: Any = 0,
    out_axes: Any = 0,
    length: int | None = None,
    reverse: bool = False,
    unroll: int = 1,
    data_transform: Callable[..., Any] | None = None,
    metadata_params: Mapping[Any, Any] = _NOTHING,
    methods: Any = None,
    _split_transpose: bool = False,
    check_constancy_invariants: bool = True,
) -> _T:
    """Return a module ``(carry, x) -> (carry, y)`` scanned over time, or in depth.

    Args:
        target: a module class, or a function whose first argument is a module.
        variable_axes: the axis of each collection that is split: an integer, ``In`` or ``Out`` of
            one, by the collection's name.
        variable_broadcast: collections that all steps share.
        variable_carry: collections that each step passes to the next.
        split_rngs: for each random stream, whether every element gets a key of its own.
        in_axes: the axis of each argument, or None for arguments that all elements share.
        out_axes: the axis of each output.
        length: the number of steps. By default the size of the scanned axes.
        reverse: go backwards.
        unroll: how many steps of the loop to unroll, as in ``lax.scan``.
        data_transform: a function of the variables and keys of each step, applied inside of the
            loop.
        metadata_params: what boxed variables should know of the new axis, such as
            ``{nn.PARTITION_NAME: "layers"}``.
        methods: the methods of a class to transform. By default ``__call__``.
        check_constancy_invariants: check that shared variables are the same at each step.

    Returns:
        A class with the same fields, or a function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Step(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, carry, _):
        ...         return nn.Dense(3)(carry), None
        >>> Deep = nn.scan(Step, variable_axes={"params": 0}, split_rngs={"params": True}, length=4)
        >>> variables = Deep().init(weft.random.key(0), jnp.ones(3), None)
        >>> variables["params"]["Dense_0"]["kernel"].shape
        (4, 3, 3)
    """
    return _lift(lift.scan, **locals())


def checkpoint(
    target: _T,
    variables: Any = True,
    rngs: Any = True,
    concrete: bool = False,
    prevent_cse: bool = True,
    static_argnums: Any = (),
    policy: Callable[..., Any] | None = None,
    methods: Any = None,
) -> _T:
    """Return a module that computes intermediate results again in the backward pass.

    It takes less memory and more time.

    Args:
        target: a module class, or a function whose first argument is a module.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.
        concrete: accepted for flax; must be False.
        prevent_cse: keep the compiler from merging both computations. False is safe inside of
            ``scan``.
        static_argnums: the positions of arguments that are compile-time constants; the module is
            not counted.
        policy: which results to keep, a policy of ``weft.checkpoint_policies``.
        methods: the methods of a class to transform. By default ``__call__``.

    Returns:
        A class with the same fields, or a function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> layer = nn.remat(nn.Dense)(2)
        >>> layer.init(weft.random.key(0), jnp.ones(3))["params"]["kernel"].shape
        (3, 2)
    """
    static_argnums = tree_util.tree_map(lambda i: i - 1, static_argnums)
    return _lift(lift.checkpoint, **locals())


remat = checkpoint


def remat_scan(
    target: _T,
    lengths: Sequence[int] = (),
    policy: Callable[..., Any] | None = None,
    variable_broadcast: Any = False,
    variable_carry: Any = False,
    variable_axes: Mapping[Any, Any] = _ALL_ALONG_0,
    split_rngs: Mapping[Any, bool] = _ALL_SPLIT,
) -> _T:
    """Return a deep network of equal layers, as nested scans with checkpoints between them.

    Args:
        target: a module class of one layer, whose outputs have the shape of its inputs.
        lengths: the lengths of the nested scans; their product is the number of layers.
        policy: which results to keep, a policy of ``weft.checkpoint_policies``.
        variable_broadcast: collections that all layers share.
        variable_carry: collections that each layer passes to the next.
        variable_axes: the axis of each collection that is split: an integer, ``In`` or ``Out`` of
            one, by the collection's name.
        split_rngs: for each random stream, whether every element gets a key of its own.

    Returns:
        A class with the same fields, or a function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> Deep = nn.remat_scan(nn.Dense, lengths=(2, 3))
        >>> Deep(4).init(weft.random.key(0), jnp.ones(4))["params"]["kernel"].shape
        (2, 3, 4, 4)
    """
    return _lift(lift.remat_scan, **locals())


def map_variables(
    target: _T,
    mapped_collections: Any = True,
    trans_in_fn: Callable[..., Any] = lambda x: x,
    trans_out_fn: Callable[..., Any] = lambda x: x,
    init: bool = False,
    mutable: bool = False,
    rngs: Any = True,
    variables: Any = True,
    methods: Any = None,
) -> _T:
    """Return a module that sees its variables through a function, and writes them through another.

    Args:
        target: a module class, or a function whose first argument is a module.
        mapped_collections: the collections that are mapped: True for all, a name, names, or a
            ``DenyList``.
        trans_in_fn: from the stored collections to those that the module sees.
        trans_out_fn: from those that the module wrote to the stored ones.
        init: make the variables by calling the module, where they don't exist.
        mutable: whether the module may write the collections.
        rngs: the random streams that are passed in; as ``variables``.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        methods: the methods of a class to transform. By default ``__call__``.

    Returns:
        A class with the same fields, or a function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> double = lambda vs: weft.tree.map(lambda x: 2 * x, vs)
        >>> Doubled = nn.map_variables(nn.Dense, "params", double, init=True)
        >>> layer = Doubled(1, kernel_init=nn.initializers.ones)
        >>> layer.init_with_output(weft.random.key(0), jnp.ones(3))[0]
        Array([6.], dtype=float32)
    """
    return _lift(lift.map_variables, **locals())


def fold_rngs(target: _T, variables: Any = True, rngs: Any = True) -> _T:
    """Return a module whose random streams start from keys of their own, as ``nn.jit`` does.

    Args:
        target: a module class, or a function whose first argument is a module.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.

    Returns:
        A class with the same fields, or a function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> layer = nn.fold_rngs(nn.Dense)(2)
        >>> layer.init(weft.random.key(0), jnp.ones(3))["params"]["kernel"].shape
        (3, 2)
    """
    return _lift(lift.fold_rngs, cached=True, **locals())


def vjp(
    fn: Callable[..., Any],
    mdl: Any,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    vjp_variables: Any = "params",
    variables: Any = True,
    rngs: Any = True,
    multi_scope: bool = False,
) -> tuple[Any, ...]:
    """Return the value of ``fn(mdl, *primals)``, and a function from cotangents to gradients.

    Args:
        fn: a function of a module and other arguments.
        mdl: the module that is its first argument.
        *primals: the other arguments.
        has_aux: whether ``fn`` returns a pair, of which only the first part is differentiated.
        reduce_axes: must be empty; use ``lax.psum`` for sums over devices.
        vjp_variables: the collections to differentiate by.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.
        multi_scope: whether ``mdl`` is a tree of modules.

    Returns:
        The value and the function, which returns the gradients of the variables and of each
        argument; with ``has_aux`` also the second part of the result.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Slope(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, x):
        ...         y, back = nn.vjp(lambda mdl, x: mdl(x), nn.Dense(1), x)
        ...         return back(jnp.ones_like(y))[1]
        >>> Slope().init_with_output(weft.random.key(0), jnp.ones(3))[0].shape
        (3,)
    """
    _no_reduce_axes(reduce_axes)
    return _lift_direct(
        lift.vjp,
        (fn,),
        mdl,
        *primals,
        single=not multi_scope,
        has_aux=has_aux,
        vjp_variables=vjp_variables,
        variables=variables,
        rngs=rngs,
    )


def _no_reduce_axes(reduce_axes):
    if reduce_axes:
        raise NotImplementedError("reduce_axes was removed; use lax.psum to sum over devices")


def value_and_grad(
    fn: Callable[..., _R],
    mdl: Any,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    variables: Any = True,
    rngs: Any = True,
) -> tuple[_R, Any]:
    """Return the value of ``fn(mdl, *primals)``, a scalar, and its gradients for the arguments.

    Args:
        fn: a function of a module and other arguments.
        mdl: the module that is its first argument.
        *primals: the other arguments.
        has_aux: whether ``fn`` returns a pair, of which only the first part is differentiated.
        reduce_axes: must be empty; use ``lax.psum`` for sums over devices.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.

    Returns:
        A pair of the value and the gradients; with ``has_aux`` the value is a pair.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Slope(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, x):
        ...         return nn.value_and_grad(lambda mdl, x: mdl(x).sum(), nn.Dense(1), x)
        >>> value, grads = Slope().init_with_output(weft.random.key(0), jnp.ones(3))[0]
        >>> value.shape
        ()
    """
    _no_reduce_axes(reduce_axes)
    settings = {"has_aux": has_aux, "variables": variables, "rngs": rngs}
    out = _lift_direct(lift.value_and_grad, (fn,), mdl, *primals, **settings)
    return ((out[0], out[1]), out[2]) if has_aux else out


def grad(
    fn: Callable[..., Any],
    mdl: Any,
    *primals: Any,
    has_aux: bool = False,
    reduce_axes: Any = (),
    variables: Any = True,
    rngs: Any = True,
) -> Any:
    """Return the gradients of ``fn(mdl, *primals)``, a scalar, for the arguments.

    Args:
        fn: a function of a module and other arguments.
        mdl: the module that is its first argument.
        *primals: the other arguments.
        has_aux: whether ``fn`` returns a pair, of which only the first part is differentiated.
        reduce_axes: must be empty; use ``lax.psum`` for sums over devices.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.

    Returns:
        The gradients; with ``has_aux`` a pair of them and the second part of the result.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Slope(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, x):
        ...         return nn.grad(lambda mdl, x: mdl(x).sum(), nn.Dense(1), x)
        >>> weft.tree.map(jnp.shape, Slope().init_with_output(weft.random.key(0), jnp.ones(3))[0])
        ((3,),)
    """
    settings = {"reduce_axes": reduce_axes, "variables": variables, "rngs": rngs}
    value, grads = value_and_grad(fn, mdl, *primals, has_aux=has_aux, **settings)
    return (grads, value[1]) if has_aux else grads


def jvp(
    fn: Callable[..., Any],
    mdl: Any,
    primals: Any,
    tangents: Any,
    variable_tangents: Any,
    variables: Any = True,
    rngs: Any = True,
) -> tuple[Any, Any]:
    """Return the value of ``fn(mdl, *primals)`` and its derivative in a direction.

    Args:
        fn: a function of a module and other arguments.
        mdl: the module that is its first argument.
        primals: the arguments, a tuple.
        tangents: the directions of the arguments, a tuple.
        variable_tangents: the directions of the variables, by collection.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.

    Returns:
        A pair of the value and the derivative.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Slope(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, x):
        ...         call = lambda mdl, x: mdl(x)
        ...         return nn.jvp(call, nn.Dense(1), (x,), (jnp.ones_like(x),), {})[1]
        >>> Slope().init_with_output(weft.random.key(0), jnp.ones(3))[0].shape
        (1,)
    """

    def run(core, scopes, *primals, **settings):
        return lift.jvp(core, scopes, primals, tangents, variable_tangents, **settings)

    run.__name__ = "jvp"
    settings = {"variables": variables, "rngs": rngs}
    return _lift_direct(run, (fn,), mdl, *primals, single=True, **settings)


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., _T],
    mdl: Any,
    init: Any,
    carry_variables: Any = False,
    broadcast_variables: Any = True,
    split_rngs: Mapping[Any, bool] = _NOTHING,
) -> _T:
    """Return the last carry of a while loop whose condition and body are functions of a module.

    Args:
        cond_fn: ``cond_fn(mdl, carry)`` returns whether to go on.
        body_fn: ``body_fn(mdl, carry)`` returns the next carry.
        mdl: the module that is its first argument.
        init: the first carry.
        carry_variables: collections that the body may write.
        broadcast_variables: collections that all rounds share.
        split_rngs: for each random stream, whether every element gets a key of its own.

    Returns:
        The last carry.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Loop(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, x):
        ...         return nn.while_loop(lambda mdl, c: c < 10, lambda mdl, c: c * 2, self, x)
        >>> int(Loop().apply({}, jnp.array(3)))
        12
    """
    return _lift_direct(
        lift.while_loop,
        (cond_fn, body_fn),
        mdl,
        init,
        carry_variables=carry_variables,
        broadcast_variables=broadcast_variables,
        split_rngs=split_rngs,
    )


@overload
def cond(
    pred: Any,
    true_fun: Callable[..., ArrayLike],
    false_fun: Callable[..., ArrayLike],
    mdl: Any,
    *operands: Any,
    variables: Any = True,
    rngs: Any = True,
) -> weft.Array: ...
@overload
def cond(
    pred: Any,
    true_fun: Callable[..., _R],
    false_fun: Callable[..., _S],
    mdl: Any,
    *operands: Any,
    variables: Any = True,
    rngs: Any = True,
) -> _R | _S: ...
def cond(
    pred: Any,
    true_fun: Callable[..., Any],
    false_fun: Callable[..., Any],
    mdl: Any,
    *operands: Any,
    variables: Any = True,
    rngs: Any = True,
) -> Any:
    """Return the result of one of two functions of a module, chosen when it runs.

    Both make the same variables.

    Args:
        pred: which one: the first if True.
        true_fun: a function of the module and the operands.
        false_fun: another, with the same types of results.
        mdl: the module that is its first argument.
        *operands: the other arguments of both.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.

    Returns:
        What the function returns.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Choice(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, x, double):
        ...         return nn.cond(double, lambda mdl, x: x * 2, lambda mdl, x: x, self, x)
        >>> float(Choice().apply({}, 3.0, True))
        6.0
    """

    def run(yes, no, scopes, pred, *operands, **settings):
        return lift.cond(pred, yes, no, scopes, *operands, **settings)

    run.__name__ = "cond"
    settings = {"variables": variables, "rngs": rngs}
    return _lift_direct(run, (true_fun, false_fun), mdl, pred, *operands, **settings)


@overload
def switch(
    index: Any,
    branches: Sequence[Callable[..., ArrayLike]],
    mdl: Any,
    *operands: Any,
    variables: Any = True,
    rngs: Any = True,
) -> weft.Array: ...
@overload
def switch(
    index: Any,
    branches: Sequence[Callable[..., _R]],
    mdl: Any,
    *operands: Any,
    variables: Any = True,
    rngs: Any = True,
) -> _R: ...
def switch(
    index: Any,
    branches: Sequence[Callable[..., Any]],
    mdl: Any,
    *operands: Any,
    variables: Any = True,
    rngs: Any = True,
) -> Any:
    """Return the result of one of several functions of a module, chosen when it runs.

    All make the same variables.

    Args:
        index: which one, clamped to the range.
        branches: functions of the module and the operands, with the same types of results.
        mdl: the module that is its first argument.
        *operands: the other arguments of all.
        variables: the collections that are passed in: True for all, a name, names, or a
            ``DenyList``.
        rngs: the random streams that are passed in; as ``variables``.

    Returns:
        What the function returns.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Choice(nn.Module):
        ...     @nn.compact
        ...     def __call__(self, x, index):
        ...         branches = [lambda mdl, x: x, lambda mdl, x: x * 2]
        ...         return nn.switch(index, branches, self, x)
        >>> float(Choice().apply({}, 3.0, 1))
        6.0
    """

    def run(*args, **settings):
        count = len(branches)
        scopes, index, *operands = args[count:]
        return lift.switch(index, args[:count], scopes, *operands, **settings)

    run.__name__ = "switch"
    settings = {"variables": variables, "rngs": rngs}
    return _lift_direct(run, tuple(branches), mdl, index, *operands, **settings)


def custom_vjp(
    fn: Callable[_P, _R],
    forward_fn: Callable[..., Any],
    backward_fn: Callable[..., Any],
    grad_vars: Any = "params",
    nondiff_argnums: Any = (),
) -> Callable[_P, _R]:
    """Return a function of a module with a derivative of its own.

    Args:
        fn: the function of a module and arguments.
        forward_fn: ``forward_fn(mdl, *args)`` returns the output and what to keep.
        backward_fn: ``backward_fn(kept, cotangent)`` returns the gradients of the variables, by
            collection, and of each argument.
        grad_vars: the collections to differentiate by.
        nondiff_argnums: the positions of arguments without derivatives.

    Returns:
        A function of the same arguments as ``fn``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> def forward(mdl, x):
        ...     return mdl(x), x
        >>> def backward(kept, cotangent):
        ...     return {"params": {}}, jnp.zeros_like(kept)
        >>> nn.custom_vjp(lambda mdl, x: mdl(x), forward, backward).__name__
        '<lambda>'
    """

    def either(*args, needs_residual, **kwargs):
        return (forward_fn if needs_residual else fn)(*args, **kwargs)

    shared = _wrap_method(functools.wraps(fn)(either))

    def transform(core):
        plain = functools.partial(core, needs_residual=False)
        forward = functools.partial(core, needs_residual=True)
        lifted = lift.custom_vjp(plain, forward, backward_fn, grad_vars, nondiff_argnums)

        def run(scopes, *args, **kwargs):
            if len(scopes) != 1:
                raise NotImplementedError(
                    "custom_vjp takes one module, without modules in its fields"
                )
            return lifted(scopes, *args, **kwargs)

        return run

    name = getattr(fn, "__name__", "custom_vjp")
    return functools.wraps(fn)(_plain_call(transform, (shared,), None, {}, name))


def named_call(class_fn: _F, force: bool = True) -> _F:
    """Return a method whose computations carry the module's name in profiles and ``weft.explain``.

    Args:
        class_fn: the method.
        force: name them also where ``disable_named_call`` was called.

    Returns:
        The method.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> class Net(nn.Module):
        ...     @nn.named_call
        ...     def __call__(self, x):
        ...         return x * 2
        >>> Net().apply({}, 3.0)
        6.0
    """

    @functools.wraps(class_fn)
    def method(self, *args, **kwargs):
        if (not force and not naming.enabled) or self._state.in_setup:
            return class_fn(self, *args, **kwargs)
        with weft.named_scope(profile_name(self, class_fn.__name__)):
            return class_fn(self, *args, **kwargs)

    return method


def add_metadata_axis(
    target: _T,
    variable_axes: Mapping[Any, Any] = _NOTHING,
    metadata_params: Mapping[Any, Any] = _NOTHING,
) -> _T:
    """Return a module whose boxed variables get the name of an axis, as with ``vmap`` and ``scan``.

    Args:
        target: a module class, or a function whose first argument is a module.
        variable_axes: the axis to add to each collection, by its name.
        metadata_params: what boxed variables should know of the new axis, such as
            ``{nn.PARTITION_NAME: "layers"}``.

    Returns:
        A class with the same fields, or a function of the same arguments.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import linen as nn
        >>> layer = nn.add_metadata_axis(nn.Dense)(2)
        >>> layer.init(weft.random.key(0), jnp.ones(3))["params"]["bias"].shape
        (2,)
    """

    def out(axis):
        return lambda tree: add_axis(tree, axis, metadata_params)

    def into(axis):
        return lambda tree: remove_axis(tree, axis, metadata_params)

    for collection, axis in variable_axes.items():
        functions = {"trans_in_fn": into(axis), "trans_out_fn": out(axis)}
        target = map_variables(target, collection, **functions, mutable=True)
    return target
