"""The stages of a jitted function: traced, lowered, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.api.compiler_options import check_options, options_items
from weft.base import knobs
from weft.base.lazy import Late
from weft.base.source import warn
from weft.base.traceback import api_boundary
from weft.control.jit import jit_p, jit_params
from weft.core.jaxpr import ClosedJaxpr, Var
from weft.core.layout import row_major
from weft.core.shape_dtype import struct_of
from weft.core.sharding import AbstractMesh, NamedSharding
from weft.core.trace import Tracer, eval_trace, state, typeof
from weft.runtime.evaluate import call_donating
from weft.runtime.site import client_of
from weft.tree.functions import tree_flatten, tree_unflatten

# loaded when somebody compiles ahead or asks what was compiled
dims = Late("weft.core.dims.dim")
shardings = Late("weft.api.shardings")
stablehlo = Late("weft.stablehlo.module")
movement = Late("weft.api.movement")
unfused = Late("weft.runtime.checked")
ahead = Late("weft.api.ahead")
# needed with mutable references only
without_refs = Late("weft.transforms.discharge")


class ArgInfo:
    """The type of one argument, and whether it is donated.

    Args:
        donated: whether the argument's memory may be reused.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> info, _ = weft.jit(lambda x: x + 1).lower(jnp.ones(3)).args_info
        >>> info[0].shape, info[0].donated
        ((3,), False)
    """

    __slots__ = ("_aval", "donated")

    def __init__(self, _aval: Any, donated: bool) -> None:
        self._aval = _aval
        self.donated = donated

    def __repr__(self) -> str:
        return f"ArgInfo(_aval={self._aval!r}, donated={self.donated})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        return self._aval.dtype


class _Stage:
    def __init__(self, fun: Callable[..., Any], staged: Any, args: Any, in_tree: Any) -> None:
        self._fun = fun
        self._staged = staged
        self._args = args
        self._in_tree = in_tree

    @property
    def in_tree(self) -> Any:
        return self._in_tree

    @property
    def out_tree(self) -> Any:
        return self._staged.out_tree

    @property
    def fun_name(self) -> str:
        return self._staged.params["name"]

    @property
    def in_avals(self) -> Any:
        return tree_unflatten(self._in_tree, self._dynamic_avals())

    @property
    def out_avals(self) -> Any:
        return tree_unflatten(self.out_tree, self._staged.closed.out_avals)

    @property
    def out_info(self) -> Any:
        structs = [struct_of(aval) for aval in self._staged.closed.out_avals]
        said = [*(self._staged.said or ()), *[None] * len(structs)]
        told = [s.update(sharding=w) if w else s for s, w in zip(structs, said, strict=False)]
        return tree_unflatten(self.out_tree, told)

    @property
    def args_info(self) -> Any:
        donated = self._staged.params["donated_invars"][len(self._staged.hoisted) :]
        infos = [ArgInfo(a, d) for a, d in zip(self._dynamic_avals(), donated, strict=True)]
        return tree_unflatten(self._in_tree, infos)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        donated = self._staged.params["donated_invars"][len(self._staged.hoisted) :]
        return tuple(i for i, d in enumerate(donated) if d)

    @property
    def _program(self) -> ClosedJaxpr:
        """The program that is compiled: without mutable references, if there are any."""
        closed = self._staged.closed
        if any(effect.on_refs for effect in closed.effects):
            return without_refs.discharge_closed(closed).program
        return closed

    @property
    def _donated(self) -> tuple[bool, ...]:
        """Which arguments of the program are donated: what references hold, where it is written."""
        staged = self._staged
        return tuple((_writing(staged)[1] if staged.refs else lent(staged))["donated_invars"])

    def _said_of_inputs(self, given: Any) -> list[Any]:
        """Where arguments are by ``in_shardings``, else by what they were staged for."""
        args, kwargs = tree_unflatten(self._in_tree, tree_flatten(self._args)[0])
        said = shardings.said_of_arguments(given, args, kwargs)
        placed = [getattr(x, "sharding", None) for x in tree_flatten(self._args)[0]]
        found = zip(said, placed, strict=True)
        return [s if s is not None else there for s, there in found]

    def _partitioned(self) -> Any:
        """The program of one device of the mesh that the arguments are on, None without one."""
        given = [*self._staged.hoisted, *tree_flatten(self._args)[0]]
        program = self._program
        if len(program.in_avals) != len(given):  # references are among the arguments
            program = self._staged.closed
        return movement.partitioned(program, given)

    def _divided(self) -> Any:
        """The mesh of several devices that the program is on, and how its arguments and results are
        divided over it; None on one device."""
        given = self._leaves()
        if len(given) != len(self._program.in_avals):
            return None
        places = [getattr(x, "sharding", None) for x in given]
        if any(isinstance(getattr(s, "mesh", None), AbstractMesh) for s in places):
            ins, outs = places, [None] * len(self._program.out_avals)
            mesh = next(s.mesh for s in places if s is not None)
            return (mesh, ins, outs) if mesh.size > 1 else None
        ins = shardings.of_inputs(self._program, given)
        outs = shardings.of_outputs(self._program, ins)
        found = [s for s in (*ins, *outs) if isinstance(s, NamedSharding) and s.num_devices > 1]
        return (found[0].mesh, ins, outs) if found else None

    def _leaves(self) -> list[Any]:
        """The arguments that it was staged for, as the program takes them."""
        given = [*self._staged.hoisted, *tree_flatten(self._args)[0]]
        return without_refs.values_of(given) if self._staged.refs else given

    def _study(self) -> Any:
        """What became of the program, where its arguments are."""
        return self._client().study(self._program, self._donated)

    def _client(self) -> Any:
        """Who runs the program on arguments like those it was staged for."""
        client = client_of(self._program, self._leaves())
        return client if client.memory.is_host else client.divided_as(self._divided())

    def _dynamic_avals(self) -> list[Any]:
        return self._staged.closed.in_avals[len(self._staged.hoisted) :]


class Traced(_Stage):
    """A function staged for given argument types; ``jit(f).trace(*args)`` makes it.

    Args:
        fun: the function.
        staged: the function's program.
        args: the types of the arguments.
        in_tree: their structure.

    Example:
        >>> import weft
        >>> weft.jit(lambda x: x + 1).trace(1.0).jaxpr.eqns[0].primitive
        add
    """

    @property
    def jaxpr(self) -> ClosedJaxpr:
        return self._staged.closed

    def lower(self, *, lowering_platforms: Any = None) -> Lowered:
        """The program made ready for the backend."""
        warn_unusable(self._staged)
        return Lowered(self._fun, self._staged, self._args, self._in_tree)


class Lowered(_Stage):
    """A staged function ready to be compiled; ``jit(f).lower(*args)`` makes it.

    Args:
        fun: the function.
        staged: the function's program.
        args: the types of the arguments.
        in_tree: their structure.

    Example:
        >>> import weft
        >>> "stablehlo.add" in weft.jit(lambda x: x + 1).lower(1.0).as_text()
        True
    """

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The program as text: ``stablehlo``, which is the default, ``hlo`` or ``jaxpr``.

        With ``debug_info``, operations name their scopes, transformations and lines.

        Without a dialect, a program that StableHLO has no form for, as one that calls back to
        Python, is given as a Jaxpr.

        >>> import weft
        >>> print(weft.jit(lambda x: -x).lower(1.0).as_text())
        module @jit__lambda_ {
          func.func public @main(%arg0: tensor<f32>) -> (tensor<f32>) {
            %1 = "stablehlo.negate"(%arg0) : (tensor<f32>) -> tensor<f32>
            return %1 : tensor<f32>
          }
        }
        <BLANKLINE>
        """
        if dialect == "jaxpr":
            return self._staged.closed.pretty_print()
        try:
            module = self._module(dialect, debug_info and dialect != "hlo")
        except NotImplementedError as error:
            if dialect is not None:
                raise
            return f"// {error}\n{self._staged.closed.pretty_print()}"
        return module.as_hlo_text() if dialect == "hlo" else str(module)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The program as a module of StableHLO, whose text ``str`` gives; also as ``hlo``."""
        return self._module(dialect)

    def _module(self, dialect: str | None, debug_info: bool = False) -> Any:
        if dialect not in (None, "stablehlo", "hlo"):
            raise ValueError(f"the dialect must be 'stablehlo' or 'hlo', got {dialect!r}")
        return stablehlo.Module(self._program, self.fun_name, debug_info, self._divided())

    def cost_analysis(self) -> dict[str, float]:
        """Operations, and bytes of all operands and results: each equation on its own."""
        return unfused.Study(self._program).costs()

    @api_boundary
    def compile(
        self,
        compiler_options: Any = None,
        *,
        device_assignment: Any = None,
        topology: Any = None,
    ) -> Any:
        """The program as an executable.

        A program that was lowered for a mesh without devices runs on those of
        ``device_assignment``; of others the devices are known, and have to be these. With a
        ``topology``, such as ``"v5e:2x2"``, or on devices of one, it is compiled for that machine,
        which need not be here: the result tells its costs, and does not run.
        """
        avals = (*self._program.in_avals, *self._program.out_avals)
        if not all(dims.is_constant_shape(getattr(aval, "shape", ())) for aval in avals):
            raise ValueError(
                f"{self.fun_name} was lowered for symbolic shapes, which cannot be compiled as they"
                " are: export it with export.export(jit(f))(...), and call the result with arrays"
            )
        of_function = self._staged.params["compiler_options_kvs"]
        machine = ahead.machine(topology, self._leaves(), self._staged.closed)
        if machine is not None:
            args = ahead.there(machine, self._args, self.fun_name)
            there = Lowered(self._fun, self._staged, args, self._in_tree)
            options = dict((*of_function, *options_items(compiler_options)))
            given = (there._program, there._donated, there._divided(), options)
            return ahead.CompiledAhead(there, machine, machine.compiled(*given))
        check_options((*of_function, *options_items(compiler_options)))
        args = shardings.assigned(self._args, device_assignment, self.fun_name)
        compiled = Compiled(self._fun, self._staged, args, self._in_tree)
        if device_assignment is not None:
            compiled.check_devices(device_assignment)
        compiled.runtime_executable()
        return compiled


class Compiled(_Stage):
    """An executable for arguments of given types; ``jit(f).lower(*args).compile()`` makes it.

    Arguments of other types raise TypeError.

    Args:
        fun: the function.
        staged: the function's program.
        args: the types of the arguments.
        in_tree: their structure.

    Example:
        >>> import weft
        >>> float(weft.jit(lambda x: x + 1).lower(1.0).compile()(2.0))
        3.0
    """

    @property
    def out_info(self) -> Any:
        structs = [struct_of(aval) for aval in self._staged.closed.out_avals]
        placed = tree_flatten(self.output_shardings)[0]
        told = [s.update(sharding=where) for s, where in zip(structs, placed, strict=True)]
        return tree_unflatten(self.out_tree, told)

    @api_boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self._in_tree:
            raise TypeError(
                f"this executable was compiled for arguments of structure {self._in_tree}, got"
                f" {tree}"
            )
        for i, (x, aval) in enumerate(zip(leaves, self._dynamic_avals(), strict=True)):
            if isinstance(x, Tracer):
                raise TypeError(
                    f"argument {self._argument_name(i)} of {self.fun_name} is a traced array, but "
                    "an executable needs concrete values; transform the function first, then "
                    "lower and compile the result"
                )
            got = typeof(x)
            if got.shape != aval.shape or got.dtype != aval.dtype:
                raise TypeError(
                    f"argument {self._argument_name(i)} of {self.fun_name}"
                    f" was compiled with {aval.str_short()} and called with"
                    f" {got.str_short()}; call the jitted function itself to compile for other"
                    " types"
                )
        if any(getattr(x, "committed", False) for x in leaves) or self._is_placed():
            leaves = shardings.put_where_compiled(self._input_shardings(), leaves)
        given = [*self._staged.hoisted, *leaves]
        if self._staged.refs and state.trace is eval_trace:
            outs = call_writing(self._staged, given)
            delete_donated(self._staged, leaves, outs)
        elif any(self._donated) and state.trace is eval_trace:
            outs = call_donating(jit_p, given, lent(self._staged))
            delete_donated(self._staged, leaves, outs)
        else:
            outs = jit_p.bind(*given, **self._staged.params)
        return tree_unflatten(self.out_tree, outs)

    def check_devices(self, devices: tuple[Any, ...]) -> None:
        """Raise ValueError unless it runs on these devices."""
        found = self._input_shardings() or tree_flatten(self.output_shardings)[0]
        own = found[0]._device_assignment if found else devices
        if list(own) != list(devices):
            raise ValueError(
                f"{self.fun_name} runs where its arguments are, on devices {[d.id for d in own]},"
                f" and device_assignment has {[d.id for d in devices]}; lower it for arguments"
                " there, or for a mesh without devices"
            )

    def _is_placed(self) -> bool:
        """Whether it was compiled for arguments at places other than where most arrays are."""
        given = tree_flatten(self._args)[0]
        return any(getattr(x, "committed", False) for x in given) or any(
            getattr(x, "sharding", None) is not None for x in given if not hasattr(x, "committed")
        )

    def _input_shardings(self) -> list[Any]:
        hoisted = list(self._staged.hoisted)
        found = shardings.of_inputs(self._staged.closed, [*hoisted, *tree_flatten(self._args)[0]])
        return found[len(hoisted) :]

    @property
    def input_shardings(self) -> Any:
        """Where the arguments are, those by position and those by name; None for unused ones.

        >>> import weft
        >>> weft.jit(lambda x: -x).lower(1.0).compile().input_shardings
        ((SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device),), {})
        """
        invars = self._staged.closed.jaxpr.invars[len(self._staged.hoisted) :]
        used = _used(self._staged)
        found = zip(invars, self._input_shardings(), strict=True)
        return tree_unflatten(self._in_tree, [s if v in used else None for v, s in found])

    @property
    def output_shardings(self) -> Any:
        """Where the results are."""
        hoisted = list(self._staged.hoisted)
        given = shardings.of_inputs(self._staged.closed, [*hoisted, *tree_flatten(self._args)[0]])
        return tree_unflatten(self.out_tree, shardings.of_outputs(self._staged.closed, given))

    @property
    def input_formats(self) -> Any:
        """How and where the arguments lie: row-major, as all arrays; None for unused ones.

        >>> import weft, weft.numpy as jnp
        >>> made = weft.jit(lambda x: -x).lower(jnp.ones((2, 3))).compile()
        >>> made.input_formats[0][0].layout.major_to_minor
        (0, 1)
        """
        avals = self._dynamic_avals()
        found = tree_flatten(self.input_shardings, is_leaf=lambda s: s is None)[0]
        formats = [
            None if s is None else row_major(aval.ndim, s)
            for aval, s in zip(avals, found, strict=True)
        ]
        return tree_unflatten(self._in_tree, formats)

    @property
    def output_formats(self) -> Any:
        """How and where the results lie: row-major, as all arrays."""
        found = tree_flatten(self.output_shardings)[0]
        avals = self._staged.closed.out_avals
        formats = [row_major(a.ndim, s) for a, s in zip(avals, found, strict=True)]
        return tree_unflatten(self.out_tree, formats)

    def _argument_name(self, i: int) -> str:
        info = self._staged.closed.debug_info
        names = None if info is None else info.names()
        return names[i] if names and i < len(names) else str(i)

    call = __call__

    def as_text(self) -> str:
        """The executable as text: its nodes over memory, then its kernels.

        >>> import weft, weft.numpy as jnp
        >>> print(weft.jit(lambda x: 2 * x).lower(jnp.ones(3)).compile().as_text())
        program <lambda>(
            arg0: f32[3]
        ) arena 0 bytes:
            k0(arg0, out0) over 3 by 3
            return out0: f32[3]
        <BLANKLINE>
        kernel k0(
            in b0: float32[3]
            out b1: float32[3]
        ) grid p0 < 3:
            b1[p0] = mul(2.0, b0[p0])
        """
        text = self._study().text()
        made = self._partitioned()
        return text if made is None else f"{text}\n{movement.story(made)}\n"

    @property
    def moves(self) -> tuple[Any, ...]:
        """The collectives of the program of one device, in order; none on one device.

        Each has ``kind``, mesh ``axes``, ``bytes`` that a device receives, ``times`` (how often it
        runs, 0 where nobody knows), ``operand``, ``primitive``, ``why`` and the user's ``line``.

        >>> import weft
        >>> weft.jit(lambda x: -x).lower(1.0).compile().moves
        ()
        """
        made = self._partitioned()
        return () if made is None else made.moves

    def cost_analysis(self) -> dict[str, float]:
        """Operations, and bytes that the kernels read and write."""
        return self._study().costs()

    def memory_analysis(self) -> Any:
        """Bytes of arguments, results, memory in between and code."""
        return self._study().memory()

    def runtime_executable(self) -> Any:
        """What runs the program."""
        return self._client().executable(self._program, self._donated)


def _writing(staged: Any) -> Any:
    """Which references a call writes, and the parameters of the same call on their values."""
    if staged.writing is None:
        pure, written = without_refs.discharge_closed(staged.closed)
        given = zip(staged.params["donated_invars"], staged.closed.in_avals, written, strict=True)
        donated = [w or (d and not aval.is_ref) for d, aval, w in given]
        staged.writing = written, jit_params(pure, staged.params, donated)
    return staged.writing


def call_writing(staged: Any, args: list[Any]) -> list[Any]:
    """The results of a call with references, which are written in their own memory if they alone
    can see it."""
    if any(isinstance(x, Tracer) for x in args):
        return jit_p.bind(*args, **staged.params)  # which says where they escaped from
    written, params = _writing(staged)
    checked = knobs.thread.mutable_array_checks  # that none is there twice
    refs = [(i, checked and args[i].holds_alone()) for i, w in enumerate(written) if w]
    outs = call_donating(jit_p, without_refs.values_of(args), params, refs)
    return without_refs.store(args, written, outs)


def lent(staged: Any) -> dict[str, Any]:
    """The parameters of a call by which only arguments are donated whose memory is of use."""
    if staged.lent is None:
        params, usable = staged.params, _usable(staged)
        if not staged.refs and usable != params["donated_invars"]:
            params = {**params, "donated_invars": usable}
        staged.lent = params
    return staged.lent


def _usable(staged: Any) -> tuple[bool, ...]:
    """Which donated arguments have memory that a result can take: one of the same type, else one of
    as many bytes."""
    jaxpr, used = staged.closed.jaxpr, _used(staged)
    given = zip(jaxpr.invars, staged.params["donated_invars"], strict=True)
    open_ones = {i: v.aval for i, (v, donated) in enumerate(given) if donated and v in used}
    results = [v.aval for v in jaxpr.outvars]
    taken = set()
    for alike in (_same_memory, lambda a, b: _nbytes(a) == _nbytes(b)):
        for i, aval in open_ones.items():
            at = next((k for k, out in enumerate(results) if alike(aval, out)), None)
            if i not in taken and at is not None:
                del results[at]
                taken.add(i)
    return tuple(i in taken for i in range(len(jaxpr.invars)))


def _same_memory(a: Any, b: Any) -> bool:
    types = [(getattr(x, "shape", None), getattr(x, "dtype", None)) for x in (a, b)]
    return types[0] == types[1]


def delete_donated(staged: Any, leaves: Any, outs: Any) -> None:
    """Mark donated arguments as deleted, as their memory may be reused."""
    donated = lent(staged)["donated_invars"][len(staged.hoisted) :]
    returned = {id(o) for o in outs}
    for x, d in zip(leaves, donated, strict=True):
        if d and hasattr(x, "delete") and id(x) not in returned:
            x.delete()


def warn_unusable(staged: Any) -> None:
    """Warn, once, of donated arguments whose memory no result has use for."""
    if staged.warned or staged.refs:
        return
    staged.warned = True
    jaxpr, used = staged.closed.jaxpr, _used(staged)
    given = zip(jaxpr.invars, staged.params["donated_invars"], _usable(staged), strict=True)
    unusable = [v.aval.str_short() for v, donated, ok in given if donated and v in used and not ok]
    if unusable:
        warn(
            f"Some donated buffers were not usable: {', '.join(unusable)}. No remaining result of "
            f"{staged.params['name']} can reuse their memory; donate only arrays that a result "
            "replaces"
        )


def _used(staged: Any) -> set[Var]:
    """The variables of a program that something is made of; all arguments if they are kept."""
    jaxpr = staged.closed.jaxpr
    used = {v for eqn in jaxpr.eqns for v in eqn.invars if type(v) is Var}
    used.update(v for v in jaxpr.outvars if type(v) is Var)
    return used.union(jaxpr.invars) if staged.params["keep_unused"] else used


def _nbytes(aval: Any) -> int:
    return aval.size * aval.dtype.itemsize if hasattr(aval, "dtype") else 0
