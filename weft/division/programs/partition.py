"""Partitioning: from a program on whole arrays to the program of one device.

The types of arguments, constraints and wanted results say how arrays are divided over a mesh. Every
equation is written again on the parts that a device has, with collectives where it needs parts of
others: what a body of ``shard_map`` is. A primitive's ``factors`` say what can be divided, its
``local`` how it is computed on parts. Of several ways the one is taken that moves the fewest bytes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.functional import split_list
from weft.base.record import Record
from weft.control.shard_map import shard_map_p
from weft.core.caches import per_program
from weft.core.jaxpr import ClosedJaxpr, JaxprEqn, Literal, eval_jaxpr, join_effects
from weft.core.sharding import PartitionSpec
from weft.core.staging import stage
from weft.core.trace import extend_axis_env, state, typeof
from weft.division.factors import Division, Factors, Spec, count, split_axes, whole
from weft.division.mesh_layout import part_aval
from weft.division.plain import plain
from weft.division.programs.joined_sums import joined_sums
from weft.division.programs.manual_axes import manual_scope
from weft.division.programs.moves import (
    Move,
    Part,
    Reshard,
    bytes_between,
    bytes_of,
    collect,
    scattered,
    with_axis,
)
from weft.division.propagate import inline, merged, propagate, specs_under
from weft.prims.families import converted
from weft.transforms.dce import dce_closed

# What a byte that a device computes with costs, in bytes moved: ties go to what divides the work.
WORK_BYTE = 0.02
WORK_PRODUCT = 0.02
# What a collective costs beside its bytes.
LATENCY = 4096
MAX_COMBINATIONS = 256


class Partitioned(Record):
    """The program of one device, and how its arguments and results are divided.

    ``jaxpr`` has the shapes of parts and collectives over the axes of ``mesh``; ``moves`` lists
    these in order, with their bytes and the user's lines.
    """

    jaxpr: ClosedJaxpr
    mesh: Any
    in_specs: tuple[Spec, ...]
    out_specs: tuple[Spec, ...]
    moves: tuple[Move, ...]

    def bind(self, *args: Any) -> list[Any]:
        """Run it on whole arrays, as ``shard_map`` does."""
        return shard_map_p.bind(
            *args,
            jaxpr=self.jaxpr,
            mesh=self.mesh,
            in_specs=tuple(PartitionSpec(*s) for s in self.in_specs),
            out_specs=tuple(PartitionSpec(*s) for s in self.out_specs),
            check_vma=False,
            manual_axes=frozenset(self.mesh.axis_names),
        )


def partition(
    closed: ClosedJaxpr,
    mesh: Any,
    in_specs: Sequence[Spec],
    out_specs: Sequence[Spec | None] | None = None,
) -> Partitioned:
    """The program of one device of a mesh.

    ``in_specs`` have the mesh axes of each dimension of the arguments, ``out_specs`` those of the
    results, None for one that may be divided in any way.
    """
    avals = closed.in_avals
    ins = [spec if hasattr(a, "shape") else () for spec, a in zip(in_specs, avals, strict=True)]
    walker = Walker(mesh)
    with extend_axis_env(list(mesh.shape.items())), manual_scope(mesh, None):
        wanted = list(out_specs or [None] * len(closed.out_avals))
        made, outs = walker.inner(closed, ins, wanted, "a result")
    moves = collect(made.jaxpr, walker.marks, walker.sizes)
    return Partitioned(made, mesh, tuple(ins), tuple(outs), tuple(moves))


def local_aval(aval: Any, spec: Spec, sizes: dict[Any, int]) -> Any:
    """The type of a part."""
    return part_aval(aval, spec, sizes) if any(spec) else aval


def alike(x: Any, aval: Any) -> Any:
    """A value of the weakness that a type has; collectives forget it."""
    found = typeof(x)
    if not hasattr(found, "weak_type") or found.weak_type == aval.weak_type:
        return x
    return converted(x, aval.dtype, aval.weak_type)


@per_program
def prepared(closed: ClosedJaxpr) -> ClosedJaxpr:
    """A program with calls written out, nothing computed twice, and nothing that is not used."""
    flat = computed_once(inline(plain(closed)))
    return dce_closed(flat, [True] * len(flat.out_avals), True)[0]


def computed_once(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The program without equations that repeat others."""
    names: dict[Any, Any] = {}
    seen: dict[Any, list[Any]] = {}
    eqns = []

    def key_of(x: Any) -> Any:
        return (x.aval, np.asarray(x.val).tobytes()) if type(x) is Literal else x

    for eqn in closed.eqns:
        ins = [x if type(x) is Literal else names.get(x, x) for x in eqn.invars]
        eqn = eqn.replace(invars=ins)
        try:
            key = (eqn.primitive, tuple(map(key_of, ins)), tuple(sorted(eqn.params.items())))
            known = None if eqn.effects else seen.get(key)
        except TypeError:  # parameters that cannot be compared
            eqns.append(eqn)
            continue
        if known is None:
            eqns.append(eqn)
            if not eqn.effects:
                seen[key] = eqn.outvars
        else:
            names.update(zip(eqn.outvars, known, strict=True))
    jaxpr = closed.jaxpr
    outvars = [x if type(x) is Literal else names.get(x, x) for x in jaxpr.outvars]
    return ClosedJaxpr(jaxpr.replace(eqns=eqns, outvars=outvars), closed.consts)


class Walker:
    """Writes programs on parts, into the current trace."""

    def __init__(self, mesh: Any) -> None:
        self.mesh = mesh
        self.sizes: dict[Any, int] = dict(mesh.shape)
        self.marks: dict[Any, Move] = {}
        self.primitive: Any = None

    # --- programs -----------------------------------------------------------------------------

    def walk(
        self, closed: ClosedJaxpr, values: list[Any], specs: list[Spec], wanted: list[Any]
    ) -> list[tuple[Any, Spec]]:
        """The results of an inlined program on parts, and how they are divided."""
        jaxpr = closed.jaxpr
        flow = propagate(closed, specs, self.mesh, wanted)
        env: dict[Any, tuple[Any, Spec]] = {}
        moved: dict[Any, Any] = {}
        for var, value in zip(jaxpr.constvars, closed.consts, strict=True):
            env[var] = value, whole(len(getattr(var.aval, "shape", ())))
        env.update(zip(jaxpr.invars, zip(values, specs, strict=True), strict=True))

        def read(x: Any) -> tuple[Any, Spec]:
            return (x.val, ()) if type(x) is Literal else env[x]

        for eqn in jaxpr.eqns:
            state.source = eqn.source_info
            self.primitive = eqn.primitive
            given = [read(x) for x in eqn.invars]
            want = [flow.read(v) for v in eqn.outvars]
            found = self.equation(eqn, given, want, moved)
            env.update(zip(eqn.outvars, found, strict=True))
        return [read(x) for x in jaxpr.outvars]

    def equation(
        self, eqn: JaxprEqn, given: list[Any], want: list[Spec], moved: dict[Any, Any]
    ) -> list[tuple[Any, Spec]]:
        primitive = eqn.primitive
        handler = getattr(self, f"on_{primitive.name}", None)
        if handler is not None:
            refs = any(not hasattr(x.aval, "shape") or x.aval.is_ref for x in eqn.invars)
            if refs and primitive is not shard_map_p:
                return self.undivided(eqn, given, {})
            return handler(eqn, given, want)
        if primitive.shardings is not None and len(given) == len(want):
            return [(self.reshard(x, s, w, ""), w) for (x, s), w in zip(given, want, strict=True)]
        avals, results = [x.aval for x in eqn.invars], [v.aval for v in eqn.outvars]
        divided = any(any(s) for _, s in given)
        plain_types = all(hasattr(a, "shape") for a in (*avals, *results))
        f = None
        if plain_types and (divided or any(map(any, want))):
            f = primitive.factors(avals, results, eqn.params)
        if f is None:
            return self.undivided(eqn, given, moved)
        specs = [s for _, s in given]
        division = self.choose(primitive, f, specs, want, avals, results)
        ins = self.under(f.ins, avals, division, f)
        args = [
            self.once(var, x, s, t, "", moved)
            for var, (x, s), t in zip(eqn.invars, given, ins, strict=True)
        ]
        outs = self.under(f.outs, results, division, f)
        shapes = [local_aval(a, s, self.sizes).shape for a, s in zip(results, outs, strict=True)]
        part = Part(self, f, division, shapes, avals)
        made = primitive.local(part, args, eqn.params)
        values = list(made) if primitive.multiple_results else [made]
        return [
            self.combined(f, division, x, s, w) for x, s, w in zip(values, outs, want, strict=True)
        ]

    def under(self, dims: list[Any], avals: Any, division: Division, f: Factors) -> list[Spec]:
        found = specs_under(dims, avals, division, f, self.sizes)
        assert None not in found
        return found  # type: ignore[return-value]

    def undivided(
        self, eqn: JaxprEqn, given: list[Any], moved: dict[Any, Any]
    ) -> list[tuple[Any, Spec]]:
        """An equation that every device computes whole."""
        why = f"no rule divides {eqn.primitive.name}"
        args = [
            self.once(var, x, s, whole(len(s)), why, moved)
            for var, (x, s) in zip(eqn.invars, given, strict=True)
        ]
        subfuns, params = eqn.primitive.get_bind_params(eqn.params)
        made = eqn.primitive.bind(*subfuns, *args, **params)
        values = made if eqn.primitive.multiple_results else [made]
        shapes = [getattr(v.aval, "shape", ()) for v in eqn.outvars]
        return [(x, whole(len(n))) for x, n in zip(values, shapes, strict=True)]

    # --- the choice ---------------------------------------------------------------------------

    def choose(
        self, primitive: Any, f: Factors, ins: list[Spec], wanted: list[Spec], avals: Any, outs: Any
    ) -> Division:
        """The axes of each factor for which the fewest bytes are moved."""
        first = merged(f, ins, wanted, avals, outs, self.sizes)
        if self.fits(f, first, ins, wanted, avals, outs):
            return first
        options, order = self.options(f, ins, wanted, avals, outs)
        best: tuple[float, Division] | None = None
        names = list(options)
        choices = itertools.product(*(options[a] for a in names))
        for chosen in itertools.islice(choices, MAX_COMBINATIONS):
            division: Division = {}
            for axis, label in sorted(zip(names, chosen, strict=True), key=lambda p: order[p[0]]):
                if label is not None:
                    division[label] = (*division.get(label, ()), axis)
            cost = self.cost(primitive, f, division, ins, wanted, avals, outs)
            if cost is not None and (best is None or cost < best[0]):
                best = cost, division
        return {} if best is None else best[1]

    def fits(
        self,
        f: Factors,
        division: Division,
        ins: list[Spec],
        wanted: list[Spec],
        avals: Any,
        outs: Any,
    ) -> bool:
        """Whether a division moves nothing."""
        if any(division.get(label) for label in f.combine):
            return False
        found = specs_under(f.ins, avals, division, f, self.sizes)
        if found != ins and any(a != b for a, b in zip(found, ins, strict=True) if any(b)):
            return False
        return None not in found and specs_under(f.outs, outs, division, f, self.sizes) == wanted

    def options(
        self, f: Factors, ins: list[Spec], wanted: list[Spec], avals: Any, outs: Any
    ) -> tuple[dict[Any, list[Any]], dict[Any, int]]:
        """For each axis the factors that it could divide, and an order of axes."""
        found: dict[Any, list[Any]] = {}
        order: dict[Any, int] = {}
        through = {x for dims in f.outs for labels in dims for x in labels}
        for dims, spec in [*zip(f.ins, ins, strict=True), *zip(f.outs, wanted, strict=True)]:
            for labels, axes in zip(dims, spec, strict=True):
                placed = {
                    a: x for x, mine in split_axes(labels, axes, f.sizes, self.sizes) for a in mine
                }
                for axis in axes:
                    order.setdefault(axis, len(order))
                    options = found.setdefault(axis, [])
                    if axis in placed:
                        if placed[axis] not in options:
                            options.append(placed[axis])
                        continue
                    # its dimension has to be whole: it may divide another
                    n = self.sizes[axis]
                    options += [
                        x for x in sorted(through) if f.sizes[x] % n == 0 and x not in options
                    ]
        return {a: [*options, None] for a, options in found.items()}, order

    def cost(
        self,
        primitive: Any,
        f: Factors,
        division: Division,
        ins: list[Spec],
        wanted: list[Spec],
        avals: Any,
        outs: Any,
    ) -> float | None:
        """Bytes that a device receives under a division, and a little for its work."""
        mesh = self.sizes
        if any(f.sizes[x] % count(axes, mesh) for x, axes in division.items()):
            return None
        new_ins: list[Any] = specs_under(f.ins, avals, division, f, mesh)
        new_outs: list[Any] = specs_under(f.outs, outs, division, f, mesh)
        if None in new_ins or None in new_outs:
            return None
        total = 0.0
        for aval, old, new in zip(avals, ins, new_ins, strict=True):
            total += self.between(aval, old, new)
            total += WORK_BYTE * bytes_of(aval, new, mesh)
        partial = [a for x in f.combine for a in division.get(x, ())]
        for aval, spec, want in zip(outs, new_outs, wanted, strict=True):
            size = bytes_of(aval, spec, mesh)
            total += WORK_BYTE * size
            scatters, rest = scattered(spec, want, partial, aval.shape, mesh)
            at = spec
            for dim, axis in scatters:
                n = mesh[axis]
                total += size * (n - 1) / n + LATENCY
                size /= n
                at = with_axis(at, dim, axis)
            n = count(rest, mesh)
            total += 2 * size * (n - 1) / n + LATENCY * (n > 1)
            total += self.between(aval, at, want) if any(want) else 0
        if primitive.products:
            work = prod(f.sizes.values())
            total += WORK_PRODUCT * work / prod(count(a, mesh) for a in division.values())
        return total

    def between(self, aval: Any, old: Spec, new: Spec) -> float:
        amount = bytes_between(aval, old, new, self.sizes)
        return amount + LATENCY if amount else 0.0

    # --- data that moves ----------------------------------------------------------------------

    def note(
        self, x: Any, kind: str, axes: Sequence[Any], amount: float, aval: Any, why: str
    ) -> None:
        """Remember what a collective is that gave a value."""
        text = aval.str_short(short_dtypes=True)
        name = "" if self.primitive is None else self.primitive.name
        move = Move(kind, tuple(axes), int(amount), text, name, state.source, why, 1)
        self.marks[x._var] = move

    def once(self, var: Any, x: Any, old: Spec, new: Spec, why: str, moved: dict[Any, Any]) -> Any:
        """A value divided in another way, which others that need it so share."""
        if old == new or not (any(old) or any(new)):
            return x
        key = var, new
        if key not in moved:
            moved[key] = self.reshard(x, old, new, why)
        return moved[key]

    def reshard(self, x: Any, old: Spec, new: Spec, why: str) -> Any:
        """A value divided in another way."""
        if old == new:
            return x
        return Reshard(self, why).apply(x, old, new)

    def combined(
        self, f: Factors, division: Division, x: Any, spec: Spec, want: Spec
    ) -> tuple[Any, Spec]:
        """A result put together over the axes of factors that it lacks."""
        kinds: dict[str, list[Any]] = {}
        for label, how in f.combine.items():
            if how != "own" and division.get(label):
                kinds.setdefault(how, []).extend(division[label])
        for how, axes in kinds.items():
            x, spec = Reshard(self, "").combine(x, spec, how, axes, want)
        return x, spec

    # --- programs inside of equations ---------------------------------------------------------

    def inner(
        self,
        closed: ClosedJaxpr,
        specs: list[Spec],
        targets: list[Spec | None],
        why: str = "",
    ) -> tuple[ClosedJaxpr, list[Spec]]:
        """A program inside of an equation on parts; results are divided as targets say."""
        flat = prepared(closed)
        found: list[Spec] = []
        source, primitive = state.source, self.primitive

        def program(*parts: Any) -> list[Any]:
            values = []
            for (x, spec), want, aval in zip(
                self.walk(flat, list(parts), specs, targets), targets, flat.out_avals, strict=True
            ):
                target = spec if want is None or not hasattr(aval, "shape") else want
                found.append(target)
                values.append(alike(self.reshard(x, spec, target, why), aval))
            return values

        avals = [local_aval(a, s, self.sizes) for a, s in zip(flat.in_avals, specs, strict=True)]
        try:
            made = stage(program, avals, flat.debug_info)
        finally:
            state.source, self.primitive = source, primitive
        return joined_sums(made, self.marks), found

    def hoisted(self, made: ClosedJaxpr, consts: list[Any]) -> tuple[ClosedJaxpr, list[Any]]:
        """A body without the collectives on its constants, and what these give before the loop."""
        jaxpr = made.jaxpr
        given = dict(zip(jaxpr.invars[: len(consts)], consts, strict=True))
        kept: list[JaxprEqn] = []
        found: list[Any] = []
        added: list[Any] = []
        for eqn in jaxpr.eqns:
            move = self.marks.get(eqn.outvars[0]) if eqn.outvars else None
            if move is None or eqn.invars[0] not in given:
                kept.append(eqn)
                continue
            before, state.source = state.source, eqn.source_info
            value = eqn.primitive.bind(given[eqn.invars[0]], **eqn.params)
            state.source = before
            self.marks[value._var] = self.marks.pop(eqn.outvars[0])
            found.append(value)
            added.append(eqn.outvars[0])
        if not found:
            return made, []
        rest = jaxpr.invars[len(consts) :]
        effects = join_effects(eqn.effects for eqn in kept)
        body = jaxpr.replace(invars=[*given, *added, *rest], eqns=kept, effects=effects)
        return ClosedJaxpr(body, made.consts), found

    def on_scan(self, eqn: JaxprEqn, given: list[Any], want: list[Spec]) -> list[tuple[Any, Spec]]:
        params = eqn.params
        body, carried = params["jaxpr"], params["num_carry"]
        consts, carry, xs = split_list(given, [params["num_consts"], carried])
        rows = [((), *s[1:]) for _, s in xs]
        ins = [*(s for _, s in (*consts, *carry)), *rows]
        found, _ = eqn.primitive.flow(params, ins, want, self.mesh)
        held = found[len(consts) : len(consts) + carried]
        args = [
            *(x for x, _ in consts),
            *(self.reshard(x, s, t, "") for (x, s), t in zip(carry, held, strict=True)),
            *(self.reshard(x, s, t, "") for (x, s), t in zip(xs, rows, strict=True)),
        ]
        specs = [*(s for _, s in consts), *held, *(s[1:] for s in rows)]
        targets = [*held, *[None] * (len(want) - carried)]
        made, outs = self.inner(body, specs, targets)
        made, more = self.hoisted(made, args[: len(consts)])
        args[len(consts) : len(consts)] = more
        params = {**params, "jaxpr": made, "num_consts": len(consts) + len(more)}
        values = eqn.primitive.bind(*args, **params)
        outs = [*held, *(((), *s) for s in outs[carried:])]
        return list(zip(values, outs, strict=True))

    def on_while(self, eqn: JaxprEqn, given: list[Any], want: list[Spec]) -> list[tuple[Any, Spec]]:
        params = eqn.params
        counts = [params["cond_nconsts"], params["body_nconsts"]]
        ins = [s for _, s in given]
        found, _ = eqn.primitive.flow(params, ins, want, self.mesh)
        cond_consts, body_consts, carry = split_list(given, counts)
        held = found[sum(counts) :]
        test = params["cond_jaxpr"]
        cond_specs = [*(s for _, s in cond_consts), *held]
        cond, _ = self.inner(test, cond_specs, [whole(test.out_avals[0].ndim)])
        body_specs = [*(s for _, s in body_consts), *held]
        body, _ = self.inner(params["body_jaxpr"], body_specs, list(held))
        body, more = self.hoisted(body, [x for x, _ in body_consts])
        params = {**params, "body_nconsts": counts[1] + len(more)}
        args = [
            *(x for x, _ in (*cond_consts, *body_consts)),
            *more,
            *(self.reshard(x, s, t, "") for (x, s), t in zip(carry, held, strict=True)),
        ]
        values = eqn.primitive.bind(*args, **{**params, "cond_jaxpr": cond, "body_jaxpr": body})
        return list(zip(values, held, strict=True))

    def on_cond(self, eqn: JaxprEqn, given: list[Any], want: list[Spec]) -> list[tuple[Any, Spec]]:
        params = eqn.params
        (index, spec), *rest = given
        index = self.reshard(index, spec, whole(len(spec)), "")
        specs = [s for _, s in rest]
        _, outs = eqn.primitive.flow(params, [spec, *specs], want, self.mesh)
        made = [self.inner(b, specs, list(outs))[0] for b in params["branches"]]
        values = eqn.primitive.bind(
            index, *(x for x, _ in rest), **{**params, "branches": tuple(made)}
        )
        return list(zip(values, outs, strict=True))

    def on_remat2(
        self, eqn: JaxprEqn, given: list[Any], want: list[Spec]
    ) -> list[tuple[Any, Spec]]:
        params = eqn.params
        made, outs = self.inner(
            ClosedJaxpr(params["jaxpr"]), [s for _, s in given], [None] * len(want)
        )
        # its program has no constants
        jaxpr = made.jaxpr
        jaxpr = jaxpr.replace(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
        kept = params["prevent_cse"]
        if isinstance(kept, tuple):
            kept = (*(False for _ in made.consts), *kept)
        args = [*made.consts, *(x for x, _ in given)]
        values = eqn.primitive.bind(*args, **{**params, "jaxpr": jaxpr, "prevent_cse": kept})
        return list(zip(values, outs, strict=True))

    def on_shard_map(
        self, eqn: JaxprEqn, given: list[Any], want: list[Spec]
    ) -> list[tuple[Any, Spec]]:
        params = eqn.params
        if dict(params["mesh"].shape) != self.sizes:
            return self.undivided(eqn, given, {})
        ins = [padded(p, len(s)) for p, (_, s) in zip(params["in_specs"], given, strict=True)]
        args = [self.reshard(x, s, t, "") for (x, s), t in zip(given, ins, strict=True)]
        body = plain(params["jaxpr"])
        values = eval_jaxpr(body.jaxpr, body.consts, *args)
        outs = [
            padded(p, len(v.aval.shape))
            for p, v in zip(params["out_specs"], eqn.outvars, strict=True)
        ]
        return list(zip(values, outs, strict=True))


def padded(spec: Any, ndim: int) -> Spec:
    """A partition spec as the axes of each dimension."""
    parts = [() if p is None else p if isinstance(p, tuple) else (p,) for p in spec]
    return (*parts, *((),) * (ndim - len(parts)))
