"""Functions that were staged once, kept as programs: called, written to bytes, read back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from weft import dtypes
from weft.api.autodiff import vjp
from weft.api.jit import JitFunction, jit
from weft.base import errors
from weft.base.knobs import enable_x64
from weft.base.limits import memory
from weft.base.traceback import api_boundary
from weft.control.custom_vjp import custom_vjp
from weft.control.jit import jit_p, jit_parameters
from weft.core.dims.dim import Dim, mixed
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, with_programs
from weft.core.registry import lookup
from weft.core.shape_dtype import ShapeDtypeStruct
from weft.core.sharding import NamedSharding
from weft.core.staging import stage
from weft.core.trace import Tracer, typeof
from weft.export.checking import check_program
from weft.export.encoding import Unwritable, Writer
from weft.export.instances import instantiated, unknowns_of
from weft.export.placement import device_count, given_devices, named, written_spec
from weft.export.reading import MalformedExportError
from weft.export.trees import write_tree
from weft.kernel.spec import KernelError
from weft.runtime.compiling import expect_sibling
from weft.runtime.devices import default_backend
from weft.stablehlo.module import Unlowered, module_text
from weft.tree.functions import tree_flatten, tree_leaves, tree_unflatten

maximum_supported_calling_convention_version = 1
minimum_supported_calling_convention_version = 1
MAX_INSTANCES = 256  # programs for sizes of calls that an exported function remembers
_PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_ALIASES = {"gpu": "cuda"}


class DisabledSafetyCheck:
    """A check that is not made when an exported function is called.

    >>> from weft import export
    >>> export.DisabledSafetyCheck.platform()
    DisabledSafetyCheck(platform)
    """

    __slots__ = ("_impl",)

    def __init__(self, _impl: str) -> None:
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Let a function be called on a platform that it was not exported for."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Let a call of foreign code pass; there are none here."""
        return cls(f"custom_call:{target_name}")

    def __eq__(self, other: object) -> bool:
        return type(other) is DisabledSafetyCheck and other._impl == self._impl

    def __hash__(self) -> int:
        return hash(self._impl)

    def __repr__(self) -> str:
        return f"DisabledSafetyCheck({self._impl})"


def default_export_platform() -> str:
    """Return the platform that functions are exported for unless another is named.

    Returns:
        Its name.

    Example:
        >>> default_export_platform()
        'cpu'
    """
    return _ALIASES.get(default_backend(), default_backend())


class Exported:
    """A function of given types, as a program; ``export`` and ``deserialize`` make it.

    ``call`` runs it, also within other functions; ``serialize`` writes it; ``vjp`` is its
    derivative, exported too. ``in_avals`` and ``out_avals`` are the types that it takes and
    returns.

    Args:
        fun_name: the name of the function.
        program: its equations.
        in_tree: the structure of its arguments.
        out_tree: the structure of its results.
        platforms: the platforms that it was exported for.
        disabled_checks: the checks that a call does not make.
        get_vjp: a function that exports the derivative.
        shardings: how arguments and results are divided.

    Example:
        >>> import weft
        >>> from weft import export
        >>> made = export.export(weft.jit(lambda x: x + 1))(1.0)
        >>> float(made.call(2.0))
        3.0
    """

    def __init__(
        self,
        fun_name: str,
        program: ClosedJaxpr,
        in_tree: Any,
        out_tree: Any,
        platforms: tuple[str, ...],
        disabled_checks: tuple[DisabledSafetyCheck, ...],
        get_vjp: Callable[[], Exported] | None,
        shardings: tuple[Sequence[Any], Sequence[Any]] = ((), ()),
    ) -> None:
        self.fun_name = fun_name
        self.in_tree, self.out_tree = in_tree, out_tree
        self.in_avals, self.out_avals = tuple(program.in_avals), tuple(program.out_avals)
        self.platforms = platforms
        self.disabled_safety_checks = disabled_checks
        self.nr_devices = device_count(program.jaxpr, [*shardings[0], *shardings[1]])
        empty = (None,) * len(self.in_avals), (None,) * len(self.out_avals)
        self._in_specs = named(shardings[0]) or empty[0]
        self._out_specs = named(shardings[1]) or empty[1]
        # JAX has no text of XLA's here for shardings over meshes
        self.in_shardings_hlo, self.out_shardings_hlo = empty
        self.ordered_effects: tuple[Any, ...] = ()
        self.unordered_effects: tuple[Any, ...] = ()
        self.calling_convention_version = maximum_supported_calling_convention_version
        self.module_kept_var_idx = tuple(range(len(self.in_avals)))
        self._program = program
        self._unknowns = unknowns_of(program, self.in_avals, in_tree, fun_name)
        # sizes, and which platform it runs on, are known at a call only
        self.uses_global_constants = self._unknowns is not None or len(platforms) > 1
        self._plain_program: ClosedJaxpr | None = None  # without functions, for instances
        self._functions: dict[int, Callable[..., Any]] = {}  # by the ids of programs they hold
        self._instances: dict[Any, ClosedJaxpr] = {}  # for the sizes of calls
        self._is_read = False  # from bytes, which anyone may have written
        self._get_vjp = get_vjp
        self._vjp: Exported | None = None

    def __repr__(self) -> str:
        ins = ", ".join(a.str_short() for a in self.in_avals)
        outs = ", ".join(a.str_short() for a in self.out_avals)
        return f"<exported {self.fun_name}: ({ins}) -> ({outs}), platforms={self.platforms}>"

    def mlir_module(self) -> str:
        """The program as a module of StableHLO for one device; as a Jaxpr, where StableHLO has no
        form for it."""
        try:
            return module_text(self._program, self.fun_name)
        except Unlowered:
            return str(self._program)

    def in_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """Where the arguments are, over the axes of ``mesh``; None where nothing was said."""
        return _over(mesh, self._in_specs)

    def out_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """Where the results are, over the axes of ``mesh``; None where nothing was said."""
        return _over(mesh, self._out_specs)

    # --- calling ----------------------------------------------------------------------------------

    @api_boundary
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The results for arguments of the types it was exported for."""
        checked = DisabledSafetyCheck.platform() not in self.disabled_safety_checks
        here = default_export_platform()
        if checked and here not in self.platforms:
            raise ValueError(
                f"{self.fun_name} was exported for {', '.join(self.platforms)}, not for {here}"
            )
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(
                f"{self.fun_name} was exported for arguments like {self.in_tree}, got {tree}"
            )
        if self.nr_devices > 1 and not any(isinstance(x, Tracer) for x in leaves):
            count = given_devices(leaves)
            if count != self.nr_devices:
                raise ValueError(
                    f"{self.fun_name} was exported for {self.nr_devices} devices and is called with"
                    f" arguments on {count}; place them with device_put"
                )
        if self._unknowns is not None:
            values = self._unknowns.values([typeof(x) for x in leaves])
            return tree_unflatten(self.out_tree, self._run(leaves, self._instance(values)))
        for i, (x, aval) in enumerate(zip(leaves, self.in_avals, strict=True)):
            given = typeof(x)
            if (given.shape, given.dtype) != (aval.shape, aval.dtype):
                raise ValueError(
                    f"{self.fun_name} was exported for argument {i} of type {aval.str_short()}, got"
                    f" {given.str_short()}"
                )
        return tree_unflatten(self.out_tree, self._run(leaves, self._program))

    def _instance(self, values: dict[str, Any]) -> ClosedJaxpr:
        """The program for values of its symbolic dimensions."""
        key = tuple(values.values())
        found = self._instances.get(key)
        if found is None:
            unknowns = self._unknowns
            assert unknowns is not None
            if self._plain_program is None:
                self._plain_program = self._program if self._is_read else _plain(self._program)
            program = self._plain_program
            if self._is_read:
                found = self._checked(program, values)
            else:
                found = instantiated(program, values)
            if all(type(n) is int for n in key):
                others = unknowns.others(values)
                if others is not None:  # from which shape-generic code is made at once
                    expect_sibling(found, lambda: instantiated(program, others))
            if len(self._instances) >= MAX_INSTANCES:
                gone = self._instances.pop(next(iter(self._instances)))
                self._functions.pop(id(gone), None)
            self._instances[key] = found
        return found

    def _checked(self, program: ClosedJaxpr, values: dict[str, Any]) -> ClosedJaxpr:
        """The same for a program from bytes, typed anew for the sizes of one call."""
        try:
            with enable_x64(True):
                found = instantiated(program, values)
                check_program(found.jaxpr)
                size = sum([a.size * storage_dtype(a.dtype).itemsize for a in found.out_avals])
        except Exception as error:  # rules of primitives refuse wrong parameters in many ways
            raise MalformedExportError(
                f"{self.fun_name} was read from bytes with an operation that is invalid for "
                f"{values}: {type(error).__name__}: {error}"
            ) from None
        there = memory()
        if there is not None and size > there:  # planning it might take for ever
            raise MemoryError(f"the results of {self.fun_name} have {size} bytes for {values}")
        return found

    def _run(self, leaves: list[Any], program: ClosedJaxpr) -> Any:
        try:
            function = self._functions.get(id(program))
            if function is None:
                function = self._functions[id(program)] = _differentiable(self, program)
            return function(*leaves)
        except (errors.JAXTypeError, errors.JAXIndexError, MalformedExportError):
            raise
        except _UNFIT as error:
            if not self._is_read:
                raise
            raise MalformedExportError(
                f"{self.fun_name} was read from bytes with an operation that cannot be compiled: "
                f"{type(error).__name__}: {error}"
            ) from None

    def has_vjp(self) -> bool:
        """Whether its derivative is there too."""
        return self._vjp is not None or self._get_vjp is not None

    def vjp(self) -> Exported:
        """The function of arguments and cotangents of results that gives cotangents of arguments.

        Both are flat; arguments that are no floating-point numbers have none.
        """
        if self._vjp is None:
            if self._get_vjp is None:
                raise ValueError(
                    f"{self.fun_name} was serialized without its derivative; use "
                    "serialize(vjp_order=1)"
                )
            self._vjp = self._get_vjp()
        return self._vjp

    # --- writing ----------------------------------------------------------------------------------

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """All of it as bytes, with derivatives up to an order; ``deserialize`` reads them."""
        try:
            return Writer().to_bytes(self._written(vjp_order))
        except Unwritable as error:
            raise ValueError(f"{self.fun_name} cannot be serialized: it contains {error}") from None

    def _written(self, vjp_order: int) -> dict[str, Any]:
        return {
            "version": self.calling_convention_version,
            "name": self.fun_name,
            "program": _plain(self._program),
            "in_tree": write_tree(self.in_tree),
            "out_tree": write_tree(self.out_tree),
            "platforms": list(self.platforms),
            "disabled": [check._impl for check in self.disabled_safety_checks],
            "vjp": self.vjp()._written(vjp_order - 1) if vjp_order > 0 else None,
            "devices": self.nr_devices,
            "specs": [
                [written_spec(spec) for spec in specs]
                for specs in (self._in_specs, self._out_specs)
            ],
        }


# What compiling raises where parameters of operations make no sense together.
_UNFIT = (
    *(AssertionError, AttributeError, KeyError, IndexError, NameError, TypeError),
    *(OverflowError, ZeroDivisionError, KernelError, RecursionError),
)


def _over(mesh: Any, specs: Any) -> tuple[Any, ...]:
    return tuple([None if spec is None else NamedSharding(mesh, spec) for spec in specs])


def _differentiable(exported: Exported, program: ClosedJaxpr) -> Callable[..., Any]:
    """The program as a function of flat arguments, with the derivative that belongs to it."""

    def run(*leaves: Any) -> Any:
        return tuple(jit_p.bind(*leaves, **jit_parameters(program, exported.fun_name)))

    def backward(leaves: Any, cts: Any) -> Any:
        found = iter(exported.vjp().call(*leaves, *moving_of(exported.out_avals, cts)))
        return tuple(next(found) if moves(aval) else None for aval in exported.in_avals)

    function = custom_vjp(run)
    function.defvjp(lambda *leaves: (run(*leaves), leaves), backward)
    return function


def moves(aval: Any) -> bool:
    return bool(dtypes.issubdtype(aval.dtype, np.inexact))


def moving_of(avals: Any, values: Any) -> list[Any]:
    return [x for x, aval in zip(values, avals, strict=True) if moves(aval)]


def export(
    fun_jit: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[DisabledSafetyCheck] = (),
    _override_lowering_rules: Any = None,
) -> Callable[..., Exported]:
    """Return a function that stages ``fun_jit`` for given arguments, or their shapes.

    What ``serialize`` writes holds no code: the program's equations, and the arrays it closes over.

    Args:
        fun_jit: the function, compiled by ``jit``.
        platforms: the platforms to export for, such as ``('cpu', 'cuda')``. By default the current
            one.
        disabled_checks: the checks that a call does not make.

    Returns:
        A function of arguments, or of their ``ShapeDtypeStruct``, that returns an ``Exported``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> from weft import export
        >>> x = weft.ShapeDtypeStruct((3,), jnp.float32)
        >>> made = export.export(weft.jit(lambda x: 2 * x))(x)
        >>> again = export.deserialize(made.serialize())
        >>> again.call(jnp.arange(3.0))
        Array([0., 2., 4.], dtype=float32)
    """
    if not isinstance(fun_jit, JitFunction):
        # functions of ours, as numpy.sin, are results of jit in JAX
        if not _is_ours(fun_jit):
            raise ValueError(f"export takes the result of jit, got {fun_jit!r}")
        fun_jit = jit(fun_jit)
    named = (default_export_platform(),) if platforms is None else tuple(platforms)
    wanted = tuple(dict.fromkeys(_ALIASES.get(name, name) for name in named))
    unknown = [name for name in wanted if name not in _PLATFORMS]
    if unknown:
        raise ValueError(f"platforms are {', '.join(_PLATFORMS)}; got {', '.join(unknown)}")
    checks = tuple(disabled_checks)

    def exporter(*args: Any, **kwargs: Any) -> Exported:
        _check_scopes((args, kwargs))
        traced = fun_jit.trace(*args, **kwargs)
        said = traced._said_of_inputs(fun_jit._options["in_shardings"])
        return exported_stage(traced, said, wanted, checks)

    return exporter


def _check_scopes(args: Any) -> None:
    """Raise ValueError where dimensions of arguments are of different scopes."""
    sizes = [n for x in tree_leaves(args) for n in getattr(x, "shape", ()) if type(n) is Dim]
    for n in sizes:
        if n.scope is not sizes[0].scope:
            raise mixed(sizes[0], n)


def exported_stage(
    stage: Any, said: Any = None, platforms: Any = None, checks: tuple[Any, ...] = ()
) -> Exported:
    """A traced, lowered or compiled function, exported; ``said`` is where its arguments are."""
    closed, name = stage._staged.closed, stage.fun_name
    in_tree, out_tree = stage.in_tree, stage.out_tree
    if any(aval.is_ref for aval in closed.in_avals):
        raise ValueError(
            f"{name} cannot be exported: it uses a mutable reference from outside; pass the value "
            "as an argument and return the new one"
        )
    if in_tree.num_leaves != len(closed.in_avals):
        raise ValueError(f"{name} cannot be exported: it closes over traced values")
    wanted = (default_export_platform(),) if platforms is None else platforms
    outs = [*(stage._staged.said or [None] * len(closed.out_avals))]
    shardings = said or [None] * len(closed.in_avals), outs
    return _exported(name, stage._program, in_tree, out_tree, wanted, checks, shardings)


def _is_ours(fun: Any) -> bool:
    home = str(getattr(fun, "__module__", ""))
    return callable(fun) and home.partition(".")[0] == __name__.partition(".")[0]


def _exported(
    name: str,
    closed: ClosedJaxpr,
    in_tree: Any,
    out_tree: Any,
    platforms: Any,
    checks: Any,
    shardings: Any,
) -> Exported:
    def get_vjp() -> Exported:
        ins = closed.in_avals

        def derivative(*flat: Any) -> Any:
            primals, cts = flat[: len(ins)], flat[len(ins) :]
            moving = moving_of(ins, primals)

            def of_moving(*given: Any) -> Any:
                rest = iter(given)
                full = [next(rest) if moves(a) else x for x, a in zip(primals, ins, strict=True)]
                return moving_of(
                    closed.out_avals, jit_p.bind(*full, **jit_parameters(closed, name))
                )

            return tuple(vjp(of_moving, *moving)[1](list(cts)))

        outs = [aval for aval in closed.out_avals if moves(aval)]
        specs = [ShapeDtypeStruct(aval.shape, aval.dtype) for aval in (*ins, *outs)]
        derivative.__name__ = f"{name}_vjp"
        return export(jit(derivative), platforms=platforms, disabled_checks=checks)(*specs)

    return Exported(name, closed, in_tree, out_tree, platforms, checks, get_vjp, shardings)


# --- programs without functions -------------------------------------------------------------------


def _plain(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program with calls replaced by what they call: rules of users' own are functions."""
    return stage(lambda *args: _run(closed, args), closed.in_avals)


def _run(closed: ClosedJaxpr, args: Any) -> list[Any]:
    jaxpr = closed.jaxpr
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        values = [x.val if type(x) is Literal else env[x] for x in eqn.invars]
        env.update(zip(eqn.outvars, _step(eqn, values), strict=True))
    return [x.val if type(x) is Literal else env[x] for x in jaxpr.outvars]


def _step(eqn: JaxprEqn, values: list[Any]) -> Any:
    callee = eqn.primitive.callee(eqn.params)
    if callee is not None:
        return _run(callee, values)
    if eqn.primitive.name == "dim_as_value" and type(eqn.params["dim"]) is int:
        aval = eqn.outvars[0].aval
        convert = {"new_dtype": aval.dtype, "weak_type": aval.weak_type, "sharding": None}
        return [lookup("convert_element_type").bind(eqn.params["dim"], **convert)]
    if eqn.primitive.name == "device_put":  # within a program it says where a value is to be
        placed = zip(values, eqn.params["devices"], strict=True)
        constrain = lookup("sharding_constraint").bind
        return [constrain(x, sharding=s) if isinstance(s, NamedSharding) else x for x, s in placed]
    leading, params = eqn.primitive.get_bind_params(eqn.params)
    out = eqn.primitive.bind(*leading, *values, **with_programs(params, _plain))
    return out if eqn.primitive.multiple_results else [out]
