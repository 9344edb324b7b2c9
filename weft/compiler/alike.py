"""Groups of values that are made alike: of equal layers, of the rounds of an unrolled loop, one
kernel is built, and the others are that kernel with other variables.

Where long ones differ in nothing but the numbers written into them, these become a small array that
their kernel reads, so that one kernel, and one native function, does for all.
"""

from __future__ import annotations

from math import frexp, prod
from typing import Any

import numpy as np

from weft.base.record import Record
from weft.base.sizes import plain
from weft.core.avals import ShapedArray
from weft.core.jaxpr import DropVar, JaxprEqn, Literal
from weft.kernel.nodes import F32, F64, layout

# Variables from which on a kernel that reads its numbers is worth it: compiling takes that long.
MIN_SHARED_VARIABLES = 12
# Numbers that are too many to be sizes: coefficients, or those of an unrolled loop.
MAX_NUMBERS = 16
_COMPLEX = (np.dtype(np.complex64), np.dtype(np.complex128))
# Elements from which on it is worth some compiling that there is less to compute.
LARGE_ELEMENTS = 100_000
# Numbers that mean what they are, and are no size of an array.
_USUAL = frozenset([-1.0, 0.0, 1.0])


class Group(Record):
    """What a group of roots is made of, as words, and what is in the places the words speak of."""

    words: tuple[Any, ...]
    variables: list[Any]
    literals: list[Literal]
    counts: list[bool]  # of each literal, whether it may be how many there are of something


class Model(Record):
    """A group that was built: the result, and what the fusion noted meanwhile."""

    group: Group
    built: Any
    missing: set[Any]
    apart: set[Any]
    plain: set[Any]
    numbers: dict[int, Any]  # by the id of an array of numbers: where those are in the group


class Alike:
    """The groups that one fusion has built."""

    def __init__(self, fusion: Any, general: bool = False) -> None:
        self.fusion = fusion
        self.general = general
        self.kinds: dict[Any, int] = {}
        self.kind_of: dict[int, int] = {}  # by the id of an equation
        self.models: dict[Any, Model] = {}
        self.first: dict[Any, list[bytes]] = {}  # numbers of the first group of its kind
        self.varied: dict[Any, set[int]] = {}  # which of them are others in other groups
        self.members: dict[Any, list[Any]] = {}
        self.outdated: list[Any] = []  # domains and roots of groups to be built again

    def build(self, domain: Any, roots: list[Any]) -> Any:
        """The kernels of some roots, made from those of a group like it where there is one."""
        group = self._described(domain, roots)
        numbers = [np.asarray(x.val, x.aval.dtype).tobytes() for x in group.literals]
        varied: set[int] = set()
        if self.general:
            varied = {i for i, counts in enumerate(group.counts) if counts}
            if len(varied) > MAX_NUMBERS:
                varied = set()
        elif len(group.variables) >= MIN_SHARED_VARIABLES:
            varied = self._vary(group, numbers, (domain, tuple(roots)))
        fixed = tuple([None if i in varied else n for i, n in enumerate(numbers)])
        key = (group.words, fixed)
        model = self.models.get(key)
        if model is not None and _shares(model, numbers):
            return self._repeated(model, group)
        model = self.models[key] = self._built(domain, roots, group, varied)
        return model.built

    def _vary(self, group: Group, numbers: list[bytes], key: Any) -> set[int]:
        """Which numbers of a group are others in groups like it; known better with every group."""
        first = self.first.setdefault(group.words, numbers)
        varied = self.varied.setdefault(group.words, set())
        more = {i for i, n in enumerate(numbers) if n != first[i]} - varied
        members = self.members.setdefault(group.words, [])
        if more:
            varied |= more
            self.outdated += members
            members.clear()
        members.append(key)
        return varied

    # --- what a group is made of ------------------------------------------------------------------

    def _described(self, domain: Any, roots: list[Any]) -> Group:
        """A group in words that are the same for all groups like it.

        Variables are counted as they are met, roots first. Those that the kernel computes are told
        by their equation, the others by their type and by whether they are in memory yet.
        """
        fusion = self.fusion
        stored = (fusion.given, fusion.materialised)
        missing, producer, users = fusion.missing, fusion.producer, fusion.users
        variables = list(roots)
        places = {v: i for i, v in enumerate(roots)}
        words: list[Any] = [domain, len(roots)]
        literals: list[Literal] = []
        counts: list[bool] = []
        several: dict[int, int] = {}  # equations with several results
        elements = 0 if domain is None else plain(prod(domain.rows) * prod(domain.columns))
        large = elements >= LARGE_ELEMENTS
        for i, x in enumerate(variables):  # it grows meanwhile
            eqn = producer.get(x)
            if eqn is not None and len(eqn.outvars) > 1:
                words.append(-1 - several.setdefault(id(eqn), len(several)))
                words.append(next(n for n, v in enumerate(eqn.outvars) if v is x))
            ready = x in stored[0] or x in stored[1]
            if i >= len(roots) and (ready or x in missing):
                words += (x.aval, ready)
                continue
            kind = self.kind_of.get(id(eqn))
            words.append(self._kind(eqn) if kind is None else kind)
            words.append(i >= len(roots) and len(users.get(x, ())) > 1)
            for v in eqn.invars:
                if type(v) is Literal:
                    if self._is_loose(eqn, v):
                        literals.append(v)
                        number, primitive = float(np.real(v.val)), eqn.primitive
                        usual = number in _USUAL or (
                            large and primitive.quick_powers and frexp(number)[0] == 0.5
                        )
                        counts.append(v.aval.dtype.kind in primitive.counts and not usual)
                    continue
                place = places.get(v)
                if place is None:
                    place = places[v] = len(variables)
                    variables.append(v)
                words.append(place)
        return Group(tuple(words), variables, literals, counts)

    def _kind(self, eqn: JaxprEqn) -> int:
        """A number that stands for what an equation does, whatever its variables are."""
        operands: list[Any] = []
        for x in eqn.invars:
            if type(x) is not Literal:
                operands.append(x.aval)
            elif self._is_loose(eqn, x):
                operands.append((x.aval,))
            else:
                operands.append((x.aval, np.asarray(x.val, x.aval.dtype).tobytes()))
        results = tuple([(v.aval, type(v) is DropVar) for v in eqn.outvars])
        params = tuple(sorted(eqn.params.items()))
        key: Any = (id(eqn.primitive), params, tuple(operands), results)
        try:
            found = self.kinds.setdefault(key, len(self.kinds))
        except TypeError:  # a parameter that cannot be compared: like no other equation
            found = self.kinds.setdefault(id(eqn), len(self.kinds))
        self.kind_of[id(eqn)] = found
        return found

    def _is_loose(self, eqn: JaxprEqn, x: Literal) -> bool:
        """Whether a kernel may read a number instead of having it written into it.

        Rules of costly operations look at the numbers they are given. General kernels read complex
        numbers as well that are in fact real ones.
        """
        primitive, dtype = eqn.primitive, x.aval.dtype
        if primitive.form != "map" or primitive.costly:
            return False
        return dtype in (F32, F64) or (self.general and dtype in _COMPLEX and _is_real(x))

    # --- building ---------------------------------------------------------------------------------

    def _built(self, domain: Any, roots: list[Any], group: Group, varied: set[int]) -> Model:
        """A group built, and what of that other groups like it have to repeat."""
        fusion = self.fusion
        arrays, numbers = _arrays(group.literals, varied)
        known = set(fusion.missing)
        apart, plain, fusion.apart, fusion.plain = fusion.apart, fusion.plain, set(), set()
        fusion.numbers = arrays
        built = fusion.kernels(domain, roots)
        fusion.numbers = {}
        model = Model(group, built, fusion.missing - known, fusion.apart, fusion.plain, numbers)
        fusion.apart, fusion.plain = apart, plain
        apart |= model.apart
        plain |= model.plain
        return model

    def _repeated(self, model: Model, group: Group) -> Any:
        """What was built for a group, with the variables and numbers of another."""
        names: dict[Any, Any] = dict(zip(model.group.variables, group.variables, strict=True))
        for array, places in model.numbers.values():
            values = [np.real(group.literals[i].val) for i in places]
            names[array] = Literal(np.array(values, array.aval.dtype), array.aval)
        fusion = self.fusion
        fusion.missing.update([names[v] for v in model.missing])
        fusion.apart.update([names[v] for v in model.apart])
        fusion.plain.update([names[v] for v in model.plain])
        steps = [
            step._replace(
                buffers=[names[v] for v in step.buffers],
                writes=[names[v] for v in step.writes],
            )
            for step in model.built.steps
        ]
        return model.built._replace(steps=steps, computed={names[v] for v in model.built.computed})


def _is_real(x: Literal) -> bool:
    """Whether a complex number has nothing, not even a sign, in its imaginary part."""
    return not any(np.asarray(x.val, x.aval.dtype).imag.tobytes())


def _arrays(literals: list[Literal], varied: set[int]) -> tuple[dict[int, Any], dict[int, Any]]:
    """Arrays of the numbers that vary: for each literal, by its id, its array and place in it; and
    for each array which of the group's literals it holds."""
    found: dict[int, Any] = {}
    numbers: dict[int, Any] = {}
    for dtype in (F32, F64):
        places: dict[int, int] = {}  # the first place of each literal in the group
        for i in sorted(varied):
            if layout(literals[i].aval.dtype)[0] == dtype:
                places.setdefault(id(literals[i]), i)
        if places:
            values = [np.real(literals[i].val) for i in places.values()]
            array = Literal(np.array(values, dtype), ShapedArray((len(values),), dtype))
            found.update((which, (array, n)) for n, which in enumerate(places))
            numbers[id(array)] = (array, list(places.values()))
    return found, numbers


def _shares(model: Model, numbers: list[bytes]) -> bool:
    """Whether a group has one number wherever the model reads the same."""
    if not model.numbers:
        return True
    literals = model.group.literals
    own: dict[int, bytes] = {}
    return all(own.setdefault(id(x), n) == n for x, n in zip(literals, numbers, strict=True))
