"""Shape-generic code of programs: from the second shape on, one program serves all.

Programs are put together by their structure (``weft.compiler.generic``). The first of a kind is
compiled for its own sizes. When a second one differs from it in sizes alone, the program in named
sizes that both are instances of is compiled, and serves the second and those that follow.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from weft.base import knobs
from weft.base.forks import across_forks
from weft.base.functional import lru
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


class Kind:
    """Programs of one structure: some that were compiled for their sizes, and those in named
    sizes."""

    def __init__(self) -> None:
        self.exact: list[Walked] = []
        self.special: set[tuple[int, ...]] = set()  # numbers on which the code itself depends
        self.templates: list[tuple[Template, InNamedSizes]] = []


@lru(MAX_KINDS)
def kind_of(key: Any) -> Kind:
    """The kind of programs that have a key."""
    return Kind()


class Search:
    """Shape-generic code looked for, and made, for one program."""

    def __init__(
        self, compiler: Compiler, closed: ClosedJaxpr, donated: tuple[bool, ...], eager: bool
    ) -> None:
        self.compiler, self.closed, self.donated = compiler, closed, donated
        self.walked = Walked(closed, compiler.own_loops)
        size_class = is_large(closed) if eager else None
        key = (compiler.name, self.walked.key, donated, knobs.context_key(), size_class)
        self.kind = kind_of(key)

    def found(self) -> Any:
        """The program by code that is there, if there is any that serves it."""
        for template, generic in self.kind.templates:
            values = template.match(self.walked)
            numbers = None if values is None else generic.instance(values)
            if numbers is not None:
                return self._served(template, generic, numbers)
        return None

    def known(self) -> None:
        """Note that there is code for exactly this program."""
        with _lock:
            if len(self.kind.exact) < MAX_EXACT:
                self.walked.consts.clear()
                self.kind.exact.append(self.walked)

    def made(self, sibling: Callable[[], ClosedJaxpr] | None) -> Any:
        """The program by new code in named sizes, made of it and of the exact one most like it.

        ``sibling`` is another instance of the same function, taken where there is none yet.
        """
        kind, walked = self.kind, self.walked
        if sibling is not None and not kind.exact:
            other_one = search(self.compiler, sibling(), self.donated)
            if other_one is not None:
                other_one.known()
        if len(kind.templates) >= MAX_TEMPLATES:
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
                served = self._compiled(lambda template=template: template)  # type: ignore[misc]  # a default
                if served is None:
                    kind.special.add(changing)
                return served
        return None

    def alone(self) -> Any:
        """The program by new code in named sizes, made of it alone; None where that is not to be
        had."""
        with _lock:
            made = lambda: alone(self.walked, self.closed, self.compiler.short())
            return self._compiled(made, eager=True)

    def _compiled(self, make: Callable[[], Template], eager: bool = False) -> Any:
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
            self.kind.templates.insert(0, (template, generic))
            del self.kind.templates[MAX_TEMPLATES:]
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


def search(
    compiler: Compiler, closed: ClosedJaxpr, donated: tuple[bool, ...], eager: bool = False
) -> Search | None:
    """The search for a program; None where nothing tells its kind."""
    try:
        return Search(compiler, closed, donated, eager)
    except (Different, TypeError, KeyError):
        return None
