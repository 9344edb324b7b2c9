"""Shape-generic code of programs: from the second shape on, one program serves all.

Programs are put together by their structure (``weft.compiler.generic``). The first of a kind is
compiled for its own sizes. When a second one differs from it in sizes alone, the program in named
sizes that both are instances of is compiled, and serves the second and those that follow.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from weft.base import knobs
from weft.base.forks import across_forks
from weft.base.functional import register_cache
from weft.compiler.generic import Different, Template, Walked, alone, between, is_large
from weft.compiler.plan import Unplannable
from weft.core.jaxpr import ClosedJaxpr
from weft.runtime.client import Compiler, InNamedSizes, Special

# Kinds of programs that are remembered, and of one kind those in named sizes, and exact ones that
# others are compared with.
MAX_KINDS, MAX_TEMPLATES, MAX_EXACT = 512, 8, 8

# Why there is no program in named sizes; anything else would be a fault of ours.
EXPECTED = (Special, Different, Unplannable)

_lock = across_forks(threading.RLock())


def _given(template: Template) -> Template:
    return template


class Kind:
    """Programs of one structure: some that were compiled for their sizes, and those in named
    sizes."""

    def __init__(self) -> None:
        self.exact: list[Walked] = []
        self.special: set[tuple[int, ...]] = set()  # numbers on which the code itself depends
        self.templates: list[tuple[Template, InNamedSizes]] = []


class _Kinds(OrderedDict[Any, Kind]):
    """All kinds of programs, for ``weft.clear_caches`` too."""

    def cache_clear(self) -> None:
        with _lock:
            self.clear()


_kinds = _Kinds()
register_cache(_kinds)


class Search:
    """Shape-generic code looked for, and made, for one program."""

    def __init__(
        self,
        compiler: Compiler,
        closed: ClosedJaxpr,
        donated: tuple[bool, ...],
        eager: bool = False,
    ) -> None:
        self.compiler, self.closed, self.donated = compiler, closed, donated
        try:
            self.walked: Any = Walked(closed, compiler.own_loops)
            size_class = is_large(closed) if eager else None
            self.key = (compiler.name, self.walked.key, donated, knobs.context_key(), size_class)
            self.kind = _kinds.get(self.key)
        except (Different, TypeError, KeyError):
            self.walked = self.kind = None

    def found(self) -> Any:
        """The program by code that is there, if there is any that serves it."""
        for template, generic in self.kind.templates if self.kind is not None else ():
            values = template.match(self.walked)
            numbers = None if values is None else generic.instance(values)
            if numbers is not None:
                return self._served(template, generic, numbers)
        return None

    def meet(self, other: ClosedJaxpr) -> None:
        """Take up another instance of the same function, which nobody has called."""
        found = Search(self.compiler, other, self.donated)
        if found.walked is not None and found.known() and found.key == self.key:
            self.kind = found.kind

    def known(self) -> int:
        """Told that the program has code of its own; how many of its kind do."""
        if self.walked is None:
            return 0
        with _lock:
            kind = self._own_kind()
            if len(kind.exact) < MAX_EXACT:
                self.walked.consts.clear()
                kind.exact.append(self.walked)
            return len(kind.exact)

    def _own_kind(self) -> Kind:
        kind = self.kind = _kinds.get(self.key)
        if kind is None:
            kind = self.kind = _kinds[self.key] = Kind()
            if len(_kinds) > MAX_KINDS:
                _kinds.popitem(last=False)
        _kinds.move_to_end(self.key)
        return kind

    def made(self, sibling: Callable[[], ClosedJaxpr] | None) -> Any:
        """The program by new code in named sizes, made of it and of the exact one most like it.

        ``sibling`` is another instance of the same function, taken where there is none yet.
        """
        if sibling is not None and self.kind is None:
            self.meet(sibling())
        kind, walked = self.kind, self.walked
        if kind is None or len(kind.templates) >= MAX_TEMPLATES:
            return None
        with _lock:
            for other in sorted(kind.exact, key=walked.distance):
                try:
                    template = between(other, walked, self.closed)
                except Different:
                    continue
                changing = tuple(template.changing)
                if not changing:
                    continue  # the same program
                if changing in kind.special:
                    return None
                served = self._compiled(kind, functools.partial(_given, template))
                if served is None:
                    kind.special.add(changing)
                return served
        return None

    def alone(self) -> Any:
        """The program by new code in named sizes, made of it alone; None where that is not to be
        had."""
        if self.walked is None:
            return None
        with _lock:
            made = lambda: alone(self.walked, self.closed, self.compiler.short())
            return self._compiled(self._own_kind(), made, eager=True)

    def _compiled(self, kind: Kind, make: Callable[[], Template], eager: bool = False) -> Any:
        """The program by the code of a template, which serves others of its kind from now on."""
        try:
            template = make()
            names = list(template.scope)
            generic = self.compiler.in_named_sizes(template.closed, self.donated, names, eager)
        except Exception as error:
            # code for exactly these sizes is made instead, whatever was the matter
            if knobs.thread.verify and not isinstance(error, EXPECTED):
                raise
            return None
        numbers = generic.instance(template.scope)
        assert numbers is not None
        served = self._served(template, generic, numbers)
        template.forget()
        if not generic.is_special:  # its parts may serve others still
            kind.templates.insert(0, (template, generic))
            del kind.templates[MAX_TEMPLATES:]
        return served

    def _served(self, template: Template, generic: InNamedSizes, numbers: list[int]) -> Any:
        """The program with its own numbers and constants in place of those that stand for them."""
        walked = self.walked
        constants, own = {}, {}
        for stand_in in template.stand_ins:
            number = stand_in.number
            value = walked.consts[number] if number >= 0 else walked.literals[-1 - number]
            constants[id(stand_in)] = (value, stand_in.aval)
            if number >= 0:
                own[id(stand_in)] = value
        return generic.served(numbers, constants, own)
