"""The ``custom_linear_solve`` primitive: a solve whose derivatives come from its operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from weft.base.functional import ById, either, split_list
from weft.base.record import Record
from weft.control.initial_style import mapped_at_front
from weft.control.jit import numpy_consts, used_axis_names
from weft.core.ad import Zero, add_tangents, instantiate, is_undef
from weft.core.batching import AxisData, match_axis
from weft.core.caches import ProgramCache
from weft.core.effects import Effects
from weft.core.interpret import run
from weft.core.jaxpr import ClosedJaxpr, Var, jaxpr_as_fun
from weft.core.primitive import Primitive
from weft.prims.arithmetic import neg
from weft.transforms.examples import along
from weft.transforms.jvp import jvp
from weft.transforms.vmap import batch_jaxpr


class _LinearSolveTuple(Record):
    """One thing for each function: the operator, its transpose, and the solves with them."""

    matvec: Any
    vecmat: Any
    solve: Any
    transpose_solve: Any

    def transpose(self) -> _LinearSolveTuple:
        return _LinearSolveTuple(self.vecmat, self.matvec, self.transpose_solve, self.solve)


LinearSolveTuple = _LinearSolveTuple  # the underscore is in the text of programs


def split_args(
    args: Sequence[Any],
    lengths: Any,
) -> tuple[_LinearSolveTuple, list[Any]]:
    """The constants of each function, and the right-hand side."""
    *consts, b = split_list(args, list(lengths))
    return _LinearSolveTuple(*consts), b


def _variables(program: Any, count: int) -> list[Var]:
    return [Var(aval) for aval in program.in_avals[:count]] if count else []


# Solves with the operands of all four functions, by the numbers of their constants.
_callees: ProgramCache[tuple[Any, ...], ClosedJaxpr] = ProgramCache("callees")


def _callee(jaxprs: Any, lengths: Any) -> ClosedJaxpr:
    closed = jaxprs.solve
    own = closed.jaxpr.invars
    groups = list(map(_variables, jaxprs, lengths))
    groups[2] = own[: lengths.solve]
    invars = [v for group in groups for v in group] + own[lengths.solve :]
    return closed.replace(jaxpr=closed.jaxpr.replace(invars=invars))


class CustomLinearSolve(Primitive):
    """Operands are the constants of the four functions, then the right-hand side."""

    name = "custom_linear_solve"
    multiple_results = True
    masks = "apart"

    def shape(
        self,
        *avals: Any,
        const_lengths: Any,
        jaxprs: Any,
    ) -> list[Any]:
        b = list(avals[sum(const_lengths) :])
        return b + jaxprs.solve.out_avals[len(b) :]

    def eqn_effects(
        self,
        avals: Any,
        params: Any,
    ) -> Effects:
        return params["jaxprs"].solve.effects

    def axis_names(self, params: Any) -> Any:
        programs = [p for p in params["jaxprs"] if p is not None]
        return set().union(*(used_axis_names(p.jaxpr) for p in programs))

    def callee(self, params: dict[str, Any]) -> ClosedJaxpr:
        """The solve, with variables for the operands that only derivatives need."""
        jaxprs, lengths = params["jaxprs"], params["const_lengths"]
        key = (lengths, *map(ById, jaxprs))
        return _callees.made(jaxprs.solve, key, lambda: _callee(jaxprs, lengths))

    @staticmethod
    def ref(
        *args: Any,
        const_lengths: Any,
        jaxprs: Any,
    ) -> list[Any]:
        consts, b = split_args(args, const_lengths)
        return run(jaxprs.solve.jaxpr, numpy_consts(jaxprs.solve), [*consts.solve, *b])

    def jvp(
        self,
        primals: Any,
        tangents: Any,
        *,
        const_lengths: Any,
        jaxprs: Any,
    ) -> Any:
        """From A x = b follows dx = solve(db - dA x)."""
        params = {"const_lengths": const_lengths, "jaxprs": jaxprs}
        x = self.bind(*primals, **params)
        consts, _ = split_args(primals, const_lengths)
        consts_dot, rhs = split_args(tangents, const_lengths)
        count = len(rhs)
        if any(type(t) is not Zero for t in consts_dot.matvec):
            fixed = [Zero.from_primal(leaf) for leaf in x[:count]]
            _, moved = jvp(
                jaxpr_as_fun(jaxprs.matvec),
                [*consts.matvec, *x[:count]],
                [*consts_dot.matvec, *fixed],
            )
            rhs = [
                db if type(dax) is Zero else add_tangents(db, neg(dax))
                for db, dax in zip(rhs, moved, strict=True)
            ]
        operands = primals[: sum(const_lengths)]
        dx = self.bind(*operands, *map(instantiate, rhs), **params)
        return x, [*dx[:count], *(Zero.from_primal(leaf) for leaf in x[count:])]

    def transpose(
        self,
        cts: Any,
        *args: Any,
        const_lengths: Any,
        jaxprs: Any,
    ) -> list[Any]:
        if jaxprs.transpose_solve is None:
            raise TypeError(
                "reverse-mode differentiation of custom_linear_solve needs transpose_solve; give"
                " it, or symmetric=True if the operator is its own transpose"
            )
        consts, b = split_args(args, const_lengths)
        if any(is_undef(x) for group in consts for x in group):
            raise NotImplementedError(
                "custom_linear_solve is linear in its right-hand side only, not in what its"
                " functions close over: differentiate it with grad or vjp"
            )
        given = [instantiate(ct) for ct in cts[: len(b)]]
        outs = self.bind(
            *(x for group in consts.transpose() for x in group),
            *given,
            const_lengths=const_lengths.transpose(),
            jaxprs=jaxprs.transpose(),
        )
        known = [None] * sum(const_lengths)
        return [*known, *(ct if is_undef(x) else None for ct, x in zip(outs, b))]

    def examples(self, avals: Any, params: dict[str, Any], axes: int) -> list[Any] | None:
        """The axes of the right-hand side along which every system is solved alone."""
        jaxprs, lengths = params["jaxprs"], params["const_lengths"]
        if jaxprs.transpose_solve is None or len(avals) != sum(lengths) + 1:
            return None
        (result, *_) = along(jaxprs.transpose_solve)
        rhs = lengths.transpose_solve
        own = result.get(rhs, ())
        kept = [
            axis
            for axis, a in enumerate(own)
            if a == axis and all(axes[axis] is not None for axes in result.values())
        ]
        return kept if len(own) == axes else None

    def batch(
        self,
        axis: AxisData,
        args: Any,
        dims: Any,
        *,
        const_lengths: Any,
        jaxprs: Any,
    ) -> tuple[list[Any], list[int | None]]:
        flags, b = split_args([d is not None for d in dims], const_lengths)
        programs, x, b = _batch_programs(axis, jaxprs, flags, b)
        count = sum(const_lengths)
        consts = mapped_at_front(args[:count], dims[:count])
        rhs = [
            match_axis(axis.size, d, 0, value) if now else value
            for value, d, now in zip(args[count:], dims[count:], b, strict=True)
        ]
        outs = self.bind(
            *consts,
            *rhs,
            const_lengths=const_lengths,
            jaxprs=programs,
        )
        return outs, [0 if each else None for each in x]


def _batch_programs(
    axis: AxisData,
    jaxprs: Any,
    consts: Any,
    b: list[bool],
) -> tuple[_LinearSolveTuple, list[bool], list[bool]]:
    """All four programs over a batch, and which parts of x and of b are then batched.

    The operator and its transpose must agree on that, so it is a fixpoint over all of them.
    """
    count = len(b)
    x = [False] * len(jaxprs.solve.out_avals)

    def program(
        which: str,
        inputs: list[bool],
        outputs: list[bool],
    ) -> Any:
        closed: ClosedJaxpr | None = getattr(jaxprs, which)
        if closed is None:
            return None, outputs
        return batch_jaxpr(closed, axis, getattr(consts, which) + inputs, outputs)

    while True:
        solve, x_solve = program("solve", b, x)
        vecmat, x_vecmat = program("vecmat", b, x[:count])
        aux = [True] * (len(x) - count) if jaxprs.vecmat is not None else x_solve[count:]
        x_after = either(x_solve, x_vecmat + aux)
        matvec, b_matvec = program("matvec", x_after[:count], b)
        back, b_back = program("transpose_solve", x_after[:count], b + aux)
        b_after = either(b, either(b_matvec, b_back[:count]))
        if x_after == x and b_after == b:
            return _LinearSolveTuple(matvec, vecmat, solve, back), x, b
        x, b = x_after, b_after


linear_solve_p = CustomLinearSolve()
