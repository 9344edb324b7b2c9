"""Products with one-hot arrays, as gathers and scatters.

A mixture of experts may write the places of tokens as a mask, with one element for each token that
is not zero, and multiply it by the tokens. This pass follows a mask through the operations that
keep it one, products among them, as the indices that it was made of. A product that reads one
becomes a sum of rows at these indices, or rows added there, if that is estimated to be faster.
Often nothing needs the mask itself then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from math import prod
from typing import Any

import numpy as np

from weft.base.functional import lru
from weft.base.knobs import enable_x64
from weft.base.record import Record
from weft.compiler.lower import find
from weft.compiler.passes.contract import uses_of
from weft.compiler.passes.cse import cse
from weft.compiler.passes.prune import prune
from weft.core.jaxpr import ClosedJaxpr, DropVar, Jaxpr, JaxprEqn, Literal, Var
from weft.core.staging import stage

Labels = tuple[int, ...]
# An axis of one element.
ONE = -1
# Positions on an axis from which on a one-hot array may be more than its indices.
MIN_POSITIONS = 8
# Elements from which on functions of one-hot arrays are looked at.
MIN_ELEMENTS = 1 << 12
# Sums of so many one-hot arrays, of which functions are taken.
MAX_TERMS = 8
# Elements of an array for each that isn't zero, from which on it is taken for a mask.
MIN_SPARSITY = 4
# The share of the time that has to be left at most.
GAIN = 0.75
_DTYPES = frozenset("float32 float64 bfloat16 float16 int32".split())
# Positions that floats count one by one.
_COUNTED = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}


class Costs(Record):
    """What a machine does a second, in bytes and multiplications, and seconds that a kernel and a
    library's product take at least. ``adds`` are elements from which on a scatter computes what it
    adds."""

    bytes: float
    multiplications: float
    kernel: float
    product: float
    adds: int = 1 << 62


class Form(Record):
    """An array as a sum of products over labelled axes, as `Recipe` of ``prims.lowerings.one_hot``
    describes it: those of the array, of factors and of one-hot arrays, which are variables.

    ``spent`` is the time that computing the array takes from what isn't one-hot, ``products`` how
    many products there are among it. ``distinct`` is whether terms of the sum that aren't zero are
    of different elements.
    """

    axes: Labels
    factors: tuple[tuple[Any, Labels], ...]
    hots: tuple[tuple[int, Any, Labels], ...] = ()
    spent: float = 0.0
    products: int = 0
    precision: Any = None
    distinct: bool = False

    def used(self) -> set[int]:
        """The axes along which it is not the same."""
        found = {a for _, labels in self.factors for a in labels}
        found.update(a for label, _, labels in self.hots for a in (label, *labels))
        return found - {ONE}

    def summed(self) -> set[int]:
        return self.used() - set(self.axes)


def one_hot(closed: ClosedJaxpr, costs: Costs, ordered: bool = False) -> ClosedJaxpr:
    """The program with products with one-hot arrays as gathers and scatters, where a machine of
    such costs takes less time for these; if sums are to be ``ordered``, without scatters."""
    jaxpr = closed.jaxpr
    names = {eqn.primitive.name for eqn in jaxpr.eqns}
    if not {"iota", "eq"} <= names or not any(eqn.primitive.contracts for eqn in jaxpr.eqns):
        return closed
    forms = _Forms(jaxpr, costs, ordered)
    eqns = forms.followed()
    if not forms.candidates:
        return closed
    made = _chosen(jaxpr, eqns, forms)
    return closed if made is None else prune(cse(ClosedJaxpr(made, closed.consts)))


def _chosen(jaxpr: Jaxpr, eqns: list[JaxprEqn], forms: _Forms) -> Jaxpr | None:
    """The program with other equations for arrays where that pays, of those that are needed."""
    needed = {x for x in jaxpr.outvars if type(x) is not Literal}
    found: list[list[JaxprEqn]] = []
    changed = False
    for eqn in reversed(eqns):
        if not eqn.effects and needed.isdisjoint(eqn.outvars):
            continue
        again = [eqn]
        form = forms.candidates.get(eqn.outvars[0]) if len(eqn.outvars) == 1 else None
        best = None if form is None else forms.best(form, eqn.outvars[0].aval)
        if best is not None:
            again = _written(best, eqn, forms.sizes)
            changed = True
        found.append(again)
        made = {v for e in again for v in e.outvars}
        needed.update(
            x for e in again for x in e.invars if type(x) is not Literal and x not in made
        )
    if not changed:
        return None
    return jaxpr.replace(eqns=[eqn for again in reversed(found) for eqn in again])


class _Forms:
    """What the arrays of a program are, as far as one-hot arrays are among their factors."""

    def __init__(self, jaxpr: Jaxpr, costs: Costs, ordered: bool) -> None:
        self.jaxpr, self.costs, self.ordered = jaxpr, costs, ordered
        self.sizes: dict[int, int] = {ONE: 1}
        self.labels = count()
        self.uses = uses_of(jaxpr)
        self.known: dict[Any, Form] = {}
        self.positions: dict[Any, int] = {}  # arrays of positions, and along which axis
        self.zeros: set[Any] = set()
        self.dense: dict[Any, JaxprEqn] = {}  # products of arrays that aren't one-hot
        self.candidates: dict[Any, Form] = {}
        self.more: list[JaxprEqn] = []

    def followed(self) -> list[JaxprEqn]:
        """All equations, with those of coefficients that functions of one-hot arrays have."""
        eqns: list[JaxprEqn] = []
        for eqn in self.jaxpr.eqns:
            rule = None if len(eqn.outvars) != 1 or eqn.effects else _rule(eqn)
            form = None if rule is None else rule(self, eqn)
            if form is not None and type(eqn.outvars[0]) is not DropVar:
                self.known[eqn.outvars[0]] = form
            eqns += self.more
            self.more = []
            eqns.append(eqn)
        return eqns

    def fresh(self, shape: Iterable[int]) -> Labels:
        found = []
        for n in shape:
            found.append(ONE if n == 1 else next(self.labels))
            self.sizes[found[-1]] = n
        return tuple(found)

    def of(self, x: Any) -> Form:
        if type(x) is Literal:
            axes = self.fresh(x.aval.shape)
            return Form(axes, ((x, axes),))
        form = self.known.get(x)
        if form is None:
            axes = self.fresh(x.aval.shape)
            form = Form(axes, ((x, axes),))
            self.known[x] = form
        return form

    def renamed(self, form: Form, names: dict[int, int]) -> Form:
        """A form with other names for the axes of the array, and new ones for summed axes."""
        names = {ONE: ONE, **names}
        for a in sorted(form.summed()):
            names[a] = next(self.labels)
            self.sizes[names[a]] = self.sizes[a]
        again = lambda labels: tuple([names[a] for a in labels])
        return form._replace(
            axes=again(form.axes),
            factors=tuple([(x, again(labels)) for x, labels in form.factors]),
            hots=tuple([(names[a], x, again(labels)) for a, x, labels in form.hots]),
        )

    def product(self, axes: Labels, *forms: Form) -> Form:
        """Forms multiplied by each other; axes that aren't of the result are summed over."""
        hots = tuple(dict.fromkeys(hot for form in forms for hot in form.hots))
        precisions = [form.precision for form in forms if form.precision is not None]
        return Form(
            axes,
            tuple([factor for form in forms for factor in form.factors]),
            hots,
            sum(form.spent for form in forms),
            sum(form.products for form in forms),
            precisions[0] if precisions else None,
        )

    # --- rules ------------------------------------------------------------------------------------

    def iota(self, eqn: JaxprEqn) -> None:
        v, axis = eqn.outvars[0], eqn.params["dimension"]
        dtype = v.aval.dtype
        most = _COUNTED.get(dtype.name) or (np.iinfo(dtype).max if dtype.kind in "iu" else 0)
        if MIN_POSITIONS <= v.aval.shape[axis] <= most:
            self.positions[v] = self.of(v).axes[axis]

    def moved(self, eqn: JaxprEqn, names: dict[int, int], axes: Labels) -> Form:
        form = self.renamed(self.of(eqn.invars[0]), names)
        return form._replace(axes=axes)

    def broadcast(self, eqn: JaxprEqn) -> Form | None:
        x, dims = eqn.invars[0], eqn.params["broadcast_dimensions"]
        if type(x) is Literal:
            if not np.any(np.asarray(x.val)):
                self.zeros.add(eqn.outvars[0])
            return None
        shape = eqn.outvars[0].aval.shape
        axes = self.fresh(shape)
        pairs = zip(self.of(x).axes, dims, strict=True)
        return self.moved(eqn, {a: axes[d] for a, d in pairs if a != ONE}, axes)

    def reshape(self, eqn: JaxprEqn) -> Form | None:
        x, shape = eqn.invars[0], eqn.outvars[0].aval.shape
        if type(x) is Literal or (eqn.params.get("dimensions") and eqn.primitive.reshapes):
            return None
        if [n for n in x.aval.shape if n != 1] != [n for n in shape if n != 1]:
            return None
        axes = self.fresh(shape)
        old = [a for a in self.of(x).axes if a != ONE]
        return self.moved(eqn, dict(zip(old, (a for a in axes if a != ONE), strict=True)), axes)

    def transpose(self, eqn: JaxprEqn) -> Form | None:
        if type(eqn.invars[0]) is Literal:
            return None
        axes = self.fresh(eqn.outvars[0].aval.shape)
        old = self.of(eqn.invars[0]).axes
        order = eqn.params["permutation"]
        return self.moved(eqn, {old[p]: a for p, a in zip(order, axes, strict=True)}, axes)

    def aligned(self, x: Any, axes: Labels) -> Form:
        """An operand of a function of elements, along the axes of the result."""
        form = self.of(x)
        pairs = zip(form.axes, axes, strict=True) if form.axes else ()
        return self.renamed(form, {a: b for a, b in pairs if a != ONE})

    def equal(self, eqn: JaxprEqn) -> Form | None:
        """A comparison with positions, of what doesn't depend on them."""
        axes = self.fresh(eqn.outvars[0].aval.shape)
        if any(type(x) is Literal for x in eqn.invars):
            return None
        for x, y in (eqn.invars, eqn.invars[::-1]):
            base = self.of(x).factors
            if len(base) != 1 or base[0][0] not in self.positions or self.of(x).hots:
                continue
            form, other = self.aligned(x, axes), self.aligned(y, axes)
            place = self.of(base[0][0]).axes.index(self.positions[base[0][0]])
            label = form.factors[0][1][place]
            if label not in axes or len(other.factors) != 1 or other.hots:
                continue
            ((indices, labels),) = other.factors
            if label in labels or type(indices) is Literal or set(labels) - {ONE, *axes}:
                continue
            return Form(axes, (), ((label, indices, labels),))
        return None

    def converted(self, eqn: JaxprEqn) -> Form | None:
        form = self.known.get(eqn.invars[0]) if type(eqn.invars[0]) is not Literal else None
        product = self.dense.get(eqn.invars[0]) if form is None or not form.hots else None
        if product is not None and self.uses[eqn.invars[0]] == 1:
            self.dense[eqn.outvars[0]] = product
        if form is None:
            return None
        before, after = (x.aval.dtype for x in (eqn.invars[0], eqn.outvars[0]))
        if not form.hots:
            base = form.factors[0][0] if len(form.factors) == 1 else None
            n = self.sizes[self.positions[base]] if base in self.positions else None
            most = _COUNTED.get(after.name) or (np.iinfo(after).max if after.kind in "iu" else 0)
            return form if n is not None and n <= most else None
        linear = before.kind == "b" and (form.distinct or not form.summed())
        wider = before.name in _DTYPES and after.name in _DTYPES and after.kind not in "iu"
        return form if (linear and after.name in _DTYPES) or wider else self.function(eqn)

    def multiplied(self, eqn: JaxprEqn) -> Form | None:
        axes = self.fresh(eqn.outvars[0].aval.shape)
        forms = [self.aligned(x, axes) for x in eqn.invars]
        if not any(form.hots for form in forms):
            return None
        made = self.product(axes, *forms)
        return made._replace(distinct=all(f.distinct for f in forms if f.hots))

    def chosen(self, eqn: JaxprEqn) -> Form | None:
        """Zero where a one-hot array of booleans is not true."""
        test, no, *yes = eqn.invars
        if type(test) is Literal or len(yes) != 1 or not self.of(test).hots:
            return None
        zero = type(no) is Literal and not np.any(np.asarray(no.val))
        if not zero and (type(no) is Literal or no not in self.zeros):
            return None
        form = self.of(test)
        if form.factors or form.summed():
            return None
        axes = self.fresh(eqn.outvars[0].aval.shape)
        if test.aval.shape != eqn.outvars[0].aval.shape:
            return None
        return self.product(axes, self.aligned(test, axes), self.aligned(yes[0], axes))

    def reduced(self, eqn: JaxprEqn) -> Form | None:
        x, gone = eqn.invars[0], eqn.params["axes"]
        form = self.known.get(x) if type(x) is not Literal else None
        if form is None or not form.hots:
            return None
        axes = tuple([a for i, a in enumerate(form.axes) if i not in gone])
        if not {form.axes[i] for i in gone} - {ONE} <= form.used():
            return None
        form = form._replace(axes=axes)
        if form.products and self._fits(form, eqn.outvars[0].aval):
            self.candidates[eqn.outvars[0]] = form
        return self._sparse(form._replace(distinct=False), eqn.outvars[0].aval)

    def dot(self, eqn: JaxprEqn) -> Form | None:
        if any(type(x) is Literal for x in eqn.invars):
            return None
        (left, right) = map(self.of, eqn.invars)
        v = eqn.outvars[0]
        if not left.hots and not right.hots:
            self.dense[v] = eqn
            return None
        form = self.dotted(eqn)
        if form is not None and self._fits(form, v.aval):
            self.candidates[v] = form
        return None if form is None else self._sparse(form, v.aval)

    def _sparse(self, form: Form, aval: Any) -> Form | None:
        """A form, if few of the elements of its array aren't zero, or each is one product."""
        hot = {label for label, _, _ in form.hots}
        terms, size = self.elements(form.used() - hot), prod(aval.shape)
        return (
            form
            if MIN_SPARSITY * terms <= size or (terms <= size and hot.isdisjoint(form.axes))
            else None
        )

    def dotted(self, eqn: JaxprEqn) -> Form | None:
        """A product as a form."""
        (depth, batch), v = eqn.params["dimension_numbers"], eqn.outvars[0]
        if any(x.aval.dtype.name not in _DTYPES for x in (*eqn.invars, v)):
            return None
        shapes = [x.aval.shape for x in eqn.invars]
        forms = [self.of(x) for x in eqn.invars]
        axes = self.fresh(v.aval.shape)
        inner = self.fresh(shapes[0][i] for i in depth[0])
        names: list[dict[int, int]] = []
        rest = iter(axes[len(batch[0]) :])
        for form, own, outer in zip(forms, depth, batch, strict=True):
            places = dict(zip(outer, axes, strict=False))
            places.update(zip(own, inner, strict=True))
            more = {i: next(rest) for i in range(len(form.axes)) if i not in places}
            named = {**places, **more}
            names.append({a: named[i] for i, a in enumerate(form.axes) if a != ONE})
        forms = [self.renamed(f, n) for f, n in zip(forms, names, strict=True)]
        made = self.product(axes, *forms)
        if not set(inner) - {ONE} <= made.used():
            return None
        work = self.elements({*axes, *inner}) / self.costs.multiplications
        masks = [x.aval for x, form in zip(eqn.invars, forms, strict=True) if form.hots]
        bytes_moved = sum(2 * prod(a.shape) * a.dtype.itemsize for a in masks)
        return made._replace(
            spent=made.spent + work + bytes_moved / self.costs.bytes + self.costs.product,
            products=made.products + 1,
            precision=eqn.params["precision"] or made.precision,
        )

    def function(self, eqn: JaxprEqn) -> Form | None:
        """A function that is zero at zero of a one-hot array."""
        arrays = [x for x in eqn.invars if type(x) is not Literal]
        form = self.known.get(arrays[0]) if len(arrays) == 1 else None
        if form is None or not form.hots or eqn.primitive.form != "map":
            return None
        if any(type(x) is Literal and x.aval.shape for x in eqn.invars):
            return None
        if prod(eqn.outvars[0].aval.shape) < MIN_ELEMENTS or not _keeps_zero(eqn):
            return None
        hot = {label for label, _, _ in form.hots}
        if len(hot) < len(form.hots) or not hot <= set(form.axes):
            return None
        read = [*(labels for _, labels in form.factors), *(labels for _, _, labels in form.hots)]
        if any(hot & set(labels) for labels in read):
            return None
        terms = sorted(form.summed())
        if self.elements(terms) > (MAX_TERMS if terms else 1):
            return None
        outer = [a for a in form.axes if a in form.used() - hot]
        labels = (*outer, *terms)
        v = Var(eqn.outvars[0].aval.update(shape=tuple(self.sizes[a] for a in labels)))
        inner = form._replace(axes=labels)
        apart = len(labels) if form.distinct else len(outer)
        self.more = _coefficients(inner, apart, eqn, v, arrays[0].aval.dtype, self.sizes)
        return form._replace(factors=((v, labels),), distinct=True)

    # --- choice -----------------------------------------------------------------------------------

    def elements(self, labels: Iterable[int]) -> int:
        return prod(self.sizes[a] for a in labels)

    def _fits(self, form: Form, aval: Any) -> bool:
        """Whether a form can be written as gathers and scatters."""
        hot = {label for label, _, _ in form.hots}
        if aval.dtype.name not in _DTYPES or any(hot & set(x[2]) for x in form.hots):
            return False
        if any(type(x) is not Literal and not _is_number(x) for x, _ in form.factors):
            return False
        added = hot & set(form.axes)
        return not added or not self.ordered

    def best(self, form: Form, aval: Any) -> Form | None:
        """The form that an array is computed by, or None where its equation takes less time."""
        spent, better = form.spent, None
        least = GAIN * spent
        found = self._time(form, aval)
        if found < least:
            better, least = form, found
        inner = self._opened(form)
        if inner is not None:
            spent = inner.spent
            own = min(least, GAIN * spent) + inner.spent - form.spent
            if self._time(inner, aval) < own:
                better = inner
        return better

    def _opened(self, form: Form) -> Form | None:
        """A form with the factors of a product that nothing else reads in its place."""
        for i, (x, labels) in enumerate(form.factors):
            eqn = None if type(x) is Literal else self.dense.get(x)
            if eqn is None or self.uses[x] > 1 or len(set(labels)) < len(labels):
                continue
            inside = self.dotted(eqn)
            if inside is None:
                continue
            pairs = zip(inside.axes, labels, strict=True)
            inside = self.renamed(inside, {a: b for a, b in pairs if a != ONE})
            rest = form._replace(factors=(*form.factors[:i], *form.factors[i + 1 :]))
            written = 2 * prod(x.aval.shape) * x.aval.dtype.itemsize / self.costs.bytes
            made = self.product(form.axes, rest, inside)
            return made._replace(spent=made.spent + written)
        return None

    def _time(self, form: Form, aval: Any) -> float:
        """About how long a form takes, in seconds."""
        hot = {label: labels for label, _, labels in form.hots}
        places = lambda labels: {
            b for a in labels for b in (hot[a] if a in hot else (a,)) if b != ONE
        }
        size = aval.dtype.itemsize
        added = [a for a in form.axes if a in hot]
        out = places(form.axes)
        groups: list[set[int]] = []
        for labels in sorted(
            [places(labels) for _, labels in form.factors], key=self.elements, reverse=True
        ):
            if not any(labels <= other for other in groups):
                groups.append(labels)
        read = sum(self.elements(labels) for labels in groups) * size
        total = self.elements(set().union(out, *groups))
        costs = self.costs
        moved, time = float(read), costs.kernel
        if len(groups) == 2 and (groups[0] & groups[1]) - out:
            moved *= 3
            time += costs.kernel + costs.product + total / costs.multiplications
        elif len(groups) > 1 and total > 2 * self.elements(groups[0]):
            moved += total * size
            time += total / costs.multiplications
        moved += self.elements(form.axes) * size
        if added:
            # zeros, and a kernel that may compute what it adds; narrow floats are added as float32
            fused = self.elements(out) >= costs.adds
            moved += (1 if fused else 3) * self.elements(out) * size
            time += costs.kernel * (1 + (not fused) + (size < 4))
        return time + moved / costs.bytes


def _is_number(x: Any) -> bool:
    dtype = getattr(x.aval, "dtype", None)
    return dtype is not None and (dtype.name in _DTYPES or dtype.name == "bool")


def _keeps_zero(eqn: JaxprEqn) -> bool:
    """Whether a function of one array is zero where that is."""
    zero = [
        np.asarray(x.val) if type(x) is Literal else np.zeros((), x.aval.dtype) for x in eqn.invars
    ]
    try:
        found = eqn.primitive.ref(*zero, **eqn.params)
    except (TypeError, ValueError, ArithmeticError):
        return False
    return not np.any(np.asarray(found))


Rule = Callable[[_Forms, JaxprEqn], "Form | None"]
_NAMED: dict[str, Rule] = {
    "iota": _Forms.iota,
    "eq": _Forms.equal,
    "mul": _Forms.multiplied,
    "and": _Forms.multiplied,
    "select_n": _Forms.chosen,
    "reduce_sum": _Forms.reduced,
    "dot_general": _Forms.dot,
    "reshape": _Forms.reshape,
    "squeeze": _Forms.reshape,
    "expand_dims": _Forms.reshape,
}


def _rule(eqn: JaxprEqn) -> Rule | None:
    primitive = eqn.primitive
    rule = _NAMED.get(primitive.name)
    if rule is not None:
        return rule
    if primitive.repeats:
        return _Forms.broadcast
    if primitive.permutes:
        return _Forms.transpose
    if primitive.converts:
        return _Forms.converted
    return _Forms.function if primitive.form == "map" and eqn.invars else None


# --- equations ------------------------------------------------------------------------------------


def _recipe(form: Form, dtype: Any, sizes: dict[int, int]) -> Any:
    """A form as what its program is known by: with its axes counted from zero."""
    found: dict[int, int] = {ONE: ONE}
    number = lambda a: found.setdefault(a, len(found) - 1)
    again = lambda labels: tuple([number(a) for a in labels])
    out = again(form.axes)
    factors = tuple([again(labels) for _, labels in form.factors])
    hots = tuple([(number(a), again(labels)) for a, _, labels in form.hots])
    extents = tuple([sizes[a] for a in found if a != ONE])
    recipe = find("one_hot.Recipe")
    return recipe(extents, out, factors, hots, dtype, form.precision)


@lru(256)
def _program(name: str, avals: Any, recipe: Any) -> Jaxpr:
    function = find(name)
    with enable_x64(True):  # types are those of the program, whatever the knob says by now
        return stage(lambda *xs: [function(*xs, recipe=recipe)], avals).jaxpr


def _avals(xs: Iterable[Any]) -> Any:
    return tuple([x.aval.strip_weak_type() for x in xs])


def _inlined(program: Jaxpr, xs: list[Any], v: Any, info: Any) -> list[JaxprEqn]:
    """The equations of a program that gives a variable."""
    env: dict[Any, Any] = dict(zip(program.invars, xs, strict=True))
    env[program.outvars[0]] = v
    return [
        eqn.replace(
            invars=[x if type(x) is Literal else env[x] for x in eqn.invars],
            outvars=[
                x if type(x) is DropVar else env.setdefault(x, Var(x.aval)) for x in eqn.outvars
            ],
            source_info=info,
        )
        for eqn in program.eqns
    ]


def _arrays(form: Form) -> list[Any]:
    return [x for x, _ in form.factors] + [x for _, x, _ in form.hots]


def _written(form: Form, eqn: JaxprEqn, sizes: dict[int, int]) -> list[JaxprEqn]:
    """The equations that compute an array by its form."""
    xs, (v,) = _arrays(form), eqn.outvars
    program = _program("one_hot.evaluate", _avals(xs), _recipe(form, v.aval.dtype, sizes))
    return _inlined(program, xs, v, eqn.source_info)


def _coefficients(
    form: Form, outer: int, eqn: JaxprEqn, v: Any, dtype: Any, sizes: dict[int, int]
) -> list[JaxprEqn]:
    """The equations that compute a function of the elements of a form that are not zero."""
    xs, function = _arrays(form), find("one_hot.coefficients")
    recipe = _recipe(form, dtype, sizes)

    def apply(x: Any) -> Any:
        return eqn.primitive.bind(
            *[y.val if type(y) is Literal else x for y in eqn.invars], **eqn.params
        )

    with enable_x64(True):
        program = stage(
            lambda *ys: [function(*ys, recipe=recipe, function=apply, outer=outer)], _avals(xs)
        ).jaxpr
    return _inlined(program, xs, v, eqn.source_info)
