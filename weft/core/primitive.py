"""Primitives: one class holds all rules of one operation.

The rules (None where a primitive has none, with the reason in ``holes``):

``shape(*avals, **params)``
    abstract evaluation: the abstract value of the result, a list of them for several results;
``ref(*arrays, **params)``
    the truth, on NumPy arrays; the result may have a wider dtype, it is rounded to the shape's;
``jvp(primals, tangents, **params)``
    results and their tangents. Most primitives leave it to this class and write ``d0``, ``d1``,
    ...: ``dk(g, out, *primals, **params)`` is what tangent ``g`` of operand ``k`` contributes;
``transpose(ct, *args, **params)``
    cotangents of the operands that are ``UndefPrimal`` in ``args``, None for the others;
``batch(axis, args, dims, **params)``
    the result over a batch and its batched dimension(s); ``axis`` is an ``AxisData``;
``factors(avals, outs, params)`` and ``local(part, args, params)``
    how it is divided over a mesh: which dimensions belong together, for types with shardings,
    propagation and partitioning alike; and what a device computes. ``explicit`` refuses types;
``lower`` or ``decompose``
    what the compiler makes of it.

Primitives that carry a Jaxpr may also say how they are evaluated (``evaluate``), staged
(``stage``), partially evaluated (``partial_eval``) and pruned (``dce``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from weft.base.lazy import Late
from weft.core import hooks
from weft.core.ad import Zero, add_tangents, instantiate
from weft.core.effects import Effects, no_effects, touches_refs
from weft.core.registry import primitives
from weft.core.trace import Trace, eval_trace, state, typeof
from weft.division import varying
from weft.division.factors import Factors, all_but, axis_sizes, elementwise, forwards

# needed where types carry shardings
divisions = Late("weft.division.rules")


class Primitive:
    """An operation with its rules; instances are made once, one for each final class."""

    name = ""
    multiple_results = False
    effects: Effects = no_effects
    holes: dict[str, str] = {}
    linear = False  # jvp is the primitive itself, applied to the tangents of all operands

    shape: Callable[..., Any]
    ref: Any = None
    transpose: Any = None
    batch: Any = None
    # what the compiler may do with it: map, move, reduce, iota, element, update, expand
    form: str | None = None
    lower: Any = None
    lower_parts: Any = None  # the same, where an element is several scalars: complex, keys
    element: Any = None  # the value at an index, as a generator of the operands that it needs
    # whether narrow floats are given to ``lower`` as float32, and bytes as what they encode
    widens = True
    elementwise = False  # whether it is, although no form of the compiler's says so
    has_poles = False  # whether small operands, not only large ones, give infinities
    view = False  # whether it only picks or relabels elements, although no form says so
    pinned = False  # whether it is computed where it stands in a loop, as it might not end
    in_place = False  # whether the result may be made in the memory of the first operand
    # whether kernels may go on with blocks of its result while it is being computed: "" for no,
    # "once" where each element is in one block, "again" where some are in several
    in_blocks = ""
    # whether it computes with floats, so that native code takes denormal ones for zeros
    arithmetic = False
    # what it is for passes that rewrite it: a product of ``dimension_numbers``, a transpose by
    # ``permutation``, a conversion to another dtype, a repetition along new dimensions, the same
    # elements at another shape
    contracts = permutes = converts = repeats = reshapes = False
    slow_parts = False  # whether it is many operations where an element is several scalars
    # (signs of operands, params) -> the sign of a real result: 1 if no element is below zero, 2 if
    # all are above it and normal, NaNs aside; 0 if that is unknown
    sign: Any = None
    costly = False  # whether computing an element again costs more than reading it from memory
    function_ops = 0  # operations for an element, roughly, where it is a function of numbers
    # (types of operands, of results, params) -> arithmetic operations; None for one an element
    flops: Any = None
    # whether all orders and ways to compute it give the same bits, although no form says so; of
    # one that carries programs, whether that is for them to say
    exact = False
    # kinds of dtypes whose numbers, written into a program as its operands, may say how many there
    # are of something, so that the same program for other sizes has other ones there
    counts = ""
    quick_powers = False  # whether it is quicker with a power of two that is known
    native_kinds = ""  # kinds of dtypes that NumPy rounds in another way than native code
    unplanned: tuple[str, ...] = ()  # parameters that only transformations look at
    keeps_callee = False  # whether further calls outside of jit come with the same program
    decompose: Any = None
    # gives what ``decompose`` stages, for operands of some types, where that is known without it
    unrolled: Any = None
    # device-neutral lowerings, for targets without a routine of their own: a function of other
    # primitives, and one that makes kernels, each as "file.function" of prims.lowerings
    neutral = ""
    kernels = ""
    # a function of other primitives that says the order of its sums, as "file.function" of
    # prims.lowerings; used in its place where the knob ``reproducible`` asks for that
    fixed_order = ""
    collective = False  # whether it is a message to other processes, a node of its own
    library = ""  # what a backend's library has to compute, where there is no such lowering
    host = ""  # why Python computes it, where nothing else can
    nodes = ""  # the control flow that the planner makes of it: loop, branch or again
    plan: Any = None  # (planner, equation, slots of operands, of results) -> these nodes
    # (params, judge) -> the program in place of one over a batch that works on the elements that
    # need it, or None where that is not cheaper; the judge is the compiler's passes/compact.py
    compacted: Any = None
    # (params, judge) -> parameters with which an element's sums do not depend on the batch, or None
    ordered: Any = None
    # (params) -> the programs of one element of a batched loop, or None
    unbatched: Any = None
    stage: Any = None
    partial_eval: Any = None
    dce: Any = None
    takes_refs = False  # whether operands may be references
    writes_ref = False  # whether something goes into its first operand, a reference
    makes_ref = False  # whether it makes a reference, which every trace then has its part in
    discharge: Any = None  # the same on cells in place of references, see transforms.discharge
    # (args, params) -> results, bound step by step; None where the steps are not known
    by_steps: Any = None
    eqn_effects: Any = None  # (avals, params) -> effects, where they depend on parameters
    axis_names: Any = None  # (params) -> names of mapped axes it speaks to
    vma: Any = None  # (axes over which operands vary, params) -> axes over which results do
    shardings: Any = (
        None  # (params) -> where its results are, if it says so; None for one it leaves
    )

    # (params, specs of operands, of results, mesh) -> both with more axes, where it has programs
    flow: Any = None
    # the operand that results have the shape of, roughly: types keep its division although devices
    # have to exchange elements then; "each" where results have the shapes of as many operands
    divided_as: int | str | None = None
    reads_at_indices = False  # whether it reads some of its first operand, as others say
    written: int | None = None  # the operand that it writes into its first one, as others say
    relocates = False  # whether it does nothing but move its operands to other devices
    destination: Any = None  # (params) -> the sharding that its only operand gets, on any device
    constrains = False  # whether it only prescribes the sharding of its only operand
    observes = False  # whether it shows how its operands are divided
    products = False  # whether its work is the product of the sizes of all its factors
    # (params) -> the program of one process, and how its arguments and results are divided
    per_process: Any = None

    # how the mask of live elements of a cotangent goes back, see transforms.masks: "each" element
    # for itself, "moved" or copied, "summed"; "product" where its rows go on (see ``factors``);
    # "apart" where it is for many examples, each alone; "call" or "loop" where it enters a program;
    # "" where only a mask of one boolean goes on; "end" where none does, as the rule need not be
    # linear; "taken" and "untaken" where it begins, "passed" where such a choice begins none
    masks = ""
    makes_masks = False  # whether its operands' cotangents have masks
    overflows = ""  # what it computes of integers, where the result may not fit its dtype
    scales = ""  # whether known operands scale a cotangent ("mul") or divide it ("div")
    taken: Any = None  # (operands) -> for each operand, the mask of elements taken from it, or None

    differentials: tuple[Any, ...] = ()

    def __init__(self) -> None:
        found: list[Any] = []
        while (rule := getattr(self, f"d{len(found)}", None)) is not None:
            found.append(rule)
        self.differentials = tuple(found)
        if self.name:
            primitives.setdefault(self.name, self)

    def __repr__(self) -> str:
        return self.name

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the primitive: the thread's current trace says what that means."""
        if varying.scopes and state.manual:
            args = varying.alike(self, args, params)
        return state.trace.process_primitive(self, args, params)

    def bind_with_trace(self, trace: Trace, args: Any, *rest: Any) -> Any:
        """What a trace makes of an operation; ``rest`` is the parameters, after types that are
        given since JAX 0.9.2."""
        return trace.process_primitive(self, args, rest[-1])

    def get_bind_params(self, params: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Arguments and parameters with which a staged equation is bound again."""
        return [], params

    def callee(self, params: dict[str, Any]) -> Any:
        """The closed program that the primitive merely calls, or None."""
        return None

    def verify(self, avals: Any, params: dict[str, Any]) -> None:
        """Raise unless the programs that it carries fit its operands; ``shape`` trusts them."""

    def program(self, avals: Any, params: dict[str, Any]) -> Any:
        """The closed program that compiled code has in its place, or None."""
        return self.callee(params)

    def compacts(self, params: dict[str, Any]) -> bool:
        """Whether it stands for the same over each element of a batch, see ``compacted``."""
        return False

    def one_size(self, params: dict[str, Any]) -> bool:
        """Whether code for one batch is so much better that code for all sizes isn't made."""
        return False

    def expands(self, avals: Any, params: dict[str, Any]) -> bool:
        """Whether the compiler should take its decomposition instead."""
        return self.form == "expand"

    def whole(self, avals: Any, params: dict[str, Any]) -> bool:
        """Whether it is not expanded in code for all sizes, as that would depend on them."""
        return False

    def fuses(self, params: dict[str, Any], ins: Any) -> bool:
        """Whether the compiler may use the form, with these parameters and types of operands."""
        return self.form is not None

    def reads_apart(self, params: dict[str, Any], out: Any) -> bool:
        """Whether data say where the elements of a result are read, and neighbours are apart."""
        return False

    def distances(
        self, params: dict[str, Any], ins: Any, operand: int, result: int
    ) -> tuple[int, ...] | None:
        """How far from an element of a result, along each axis, lies that of an operand; 0 where
        elements are spread or left out. None if it isn't the same distance everywhere."""
        return None

    def lean(self, params: dict[str, Any], used: list[bool]) -> dict[str, Any]:
        """Parameters that leave out the work for results that nothing uses, if it can be."""
        return params

    def shard(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        """How the results are divided where the operands are divided as ``specs`` say.

        A spec has the mesh axes of each dimension, as a tuple. None where nothing is known: then
        the results are whole.
        """
        if self.divided_as == "each":
            return list(specs[: len(outs)])
        if self.divided_as is not None:
            return [specs[self.divided_as]] * len(outs)
        factors = self.factors(avals, outs, params)
        if factors is None:
            return None
        return forwards(factors, specs, outs, axis_sizes(avals))

    def factors(self, avals: Any, outs: Any, params: dict[str, Any]) -> Factors | None:
        """Which dimensions of operands and results belong together; None where all are whole.

        Where some of the first operand must be (``undivided``), the others are those of all.
        """
        if self.form == "map":
            return elementwise(avals, outs)
        whole = self.undivided(avals, params)
        return all_but(whole[0], avals, outs) if whole else None

    def local(self, part: Any, args: Any, params: dict[str, Any]) -> Any:
        """A device's part of the results, from its parts of the operands, as factors are divided.

        ``part`` (``division.programs.moves.Part``) says how, and has what devices do together.
        """
        return self.bind(*args, **params)

    def explicit(self, specs: Any, avals: Any, outs: Any, params: dict[str, Any]) -> Any:
        """The same for shardings that types carry: an error where it is not clear."""
        if self.divided_as is None and (self.form == "map" or self.elementwise):
            return [divisions.merged(self.name, specs, avals)] * len(outs)
        for i, dims in enumerate(self.undivided(avals, params)):
            divisions.check_whole(self.name, specs[i], avals[i], dims)
        found = self.shard(specs, avals, outs, params)
        if found is None:
            raise divisions.unclear(self, avals)
        return found

    def undivided(self, avals: Any, params: dict[str, Any]) -> Any:
        """For each operand the dimensions that must be whole where types carry shardings."""
        return ()

    def writes_cotangents(self, params: dict[str, Any]) -> bool:
        """Whether it was made as the transpose of what reads an array by indices."""
        return False

    def rounds(self, params: dict[str, Any]) -> int | None:
        """How often it runs the programs that it carries; None where that is not known."""
        return 1

    def flushes(self, values: Any, params: dict[str, Any]) -> bool:
        """Whether denormal numbers among these operands and their results count as zeros."""
        return self.arithmetic

    def evaluate(self, args: Any, params: dict[str, Any]) -> Any:
        """Compute, with nothing traced; references are cells themselves."""
        if self.discharge is not None and touches_refs(self, params):
            return self.discharge(*args, **params)
        return hooks.evaluate(self, args, params)

    def impl(self, *args: Any, **params: Any) -> Any:
        return eval_trace.process_primitive(self, args, params)

    def abstract_eval(self, *avals: Any, **params: Any) -> tuple[Any, Effects]:
        """Abstract results and effects, whatever the primitive."""
        effects = self.effects if self.eqn_effects is None else self.eqn_effects(avals, params)
        return self.shape(*avals, **params), effects

    def check_types(self, avals: list[Any], params: dict[str, Any], error: Exception) -> None:
        """Raise what is wrong with the types of operands, where a rule has stumbled over it.

        A rule may take operands apart before anything looks at their types. An error of the same
        class stays as it is: it may say more.
        """
        try:
            given = inspect.signature(self.shape).bind(*avals, **params)
        except TypeError:
            return  # a call that is not staged yet, as of a function with rules of its own
        try:
            self.shape(*given.args, **given.kwargs)
        except Exception as own:
            if type(own) is not type(error):
                raise own from None

    def jvp(self, primals: Any, tangents: Any, **params: Any) -> tuple[Any, Any]:
        if self.linear:
            return self._linear_jvp(primals, tangents, params)
        if "jvp" in self.holes:
            raise NotImplementedError(
                f"{self} has no derivative; wrap its operands in lax.stop_gradient"
            )
        out = self.bind(*primals, **params)
        total = None
        for rule, tangent in zip(self.differentials, tangents, strict=False):
            if type(tangent) is Zero or rule is None:
                continue
            term = rule(tangent, out, *primals, **params)
            total = term if total is None else add_tangents(total, term)
        if total is None:
            total = Zero(typeof(out).to_tangent_aval())
        return out, total

    def _linear_jvp(self, primals: Any, tangents: Any, params: Any) -> tuple[Any, Any]:
        out = self.bind(*primals, **params)
        return out, self.bind(*map(instantiate, tangents), **params)
