"""Native functions written in a small part of Python and translated to LLVM text.

A stub is a Python function that is never run as one: its source is read, and every name in it has
a kind of machine value. Parameters are annotated; a variable has the kind of what it is first
given; numbers written out take the kind of the other operand. Constants and functions may be those
of another module (``tables.COUNT``). ``i64[p, k]`` is the ``k``-th ``i64`` at ``p``, to read or to
assign; ``p + n`` is ``n`` bytes after ``p``. Division and remainder are the machine's, towards
zero. Statements: assignment, ``if``, ``while``, ``for ... in range``, or ``in unrolled`` where the
body is written out for each number if these are given, ``break``, ``continue``, ``return``, calls.
What depends on numbers that are given and comes to nothing is left out, and so are private stubs
that nothing calls then.

Calls: other stubs of the module; functions outside of it, declared with their kinds; a kind, to
convert (``u32(x)``); ``bits(u32, x)`` for the same bits as another kind; ``stack(n)`` for ``n``
bytes that live as long as the call; ``invoke(i64, f, x, y)`` for a function at an address;
``min``, ``max``; ``fabs``, ``fma`` and other intrinsics of LLVM; ``clock()`` for a count that grows
with time; ``float_mode()`` and ``set_float_mode(mode)``.

Kinds may be vectors (``f32.of(4)``): numbers written out stand for all lanes, and so does a single
value that is converted (``V(x)``); comparisons are one bit a lane, which ``x if m else y`` chooses
by. ``V[p, k]`` needs no more alignment than one lane. A stub of single values that is called with
vectors is one of vectors there. ``shuffle(x, y, ORDER)`` has lanes of two vectors by number.

``for a, b in PAIRS`` writes its body out for each pair of numbers that are given. A list, such as
``rows = [V[p, i] for i in unrolled(4)]``, is values in registers: ``rows[k]`` is one of them, to
read or to assign, where ``k`` is given. An array that is given is constant memory. A stub that
returns ``values`` is straight code (`straight.py`), written out where it is called: it takes and
returns lists too.

What is known when a stub is translated stands behind the star of its signature: with ``def
sort(buffers: ptr, *, LENGTH: static) -> void`` the module is made for one ``LENGTH``, a number, a
list of numbers or an array. Calls leave these out: all stubs of a module share them by name. A
missing one, or one that no stub has, is an error.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any

from weft.backends.llvm.code import Effort, Function, Module, Parameter
from weft.backends.llvm.text.stub_expressions import (
    Edge,
    Expressions,
    Places,
    Stubs,
    tree_of,
)
from weft.base.functional import lru
from weft.kernel.kinds import KINDS, External, Intrinsic, Kind, i64, void
from weft.kernel.straight import (
    Operand,
    StubError,
    is_straight,
    static_names,
    statics_of,
)

# What stubs are given by names that are not parameters: kinds in annotations, and functions.
_OTHERWISE = (Kind, External, Intrinsic, FunctionType)


def translate(
    stubs: Iterable[Callable[..., Any]],
    names: Mapping[str, Any] | None = None,
    private: Iterable[str] = (),
    plain: bool = False,
    light: bool = False,
    brief: bool = False,
    loop: bool = False,
    outside: Iterable[str] = (),
) -> Module:
    """The module of stubs, some of which may be defined ``outside`` of it.

    ``names`` are numbers and kinds that the stubs use beyond their own globals. All stubs can be
    called from outside by their names, but those that are ``private``: they become part of the
    stubs that call them. Loops that are ``plain`` stay as written, which compiles much faster than
    vectors and unrolled loops do, and with ``loop`` what goes round in them is in registers; a
    ``light`` module is optimised only a little, a ``brief`` one is made in the least time.
    """
    functions = {f.__name__: f for f in stubs}
    given = dict(names or {})
    known = {name: signature(f, given) for name, f in functions.items()}
    module = Stubs(known, given, frozenset(private), frozenset(outside))
    made: dict[str, Function] = {}
    # functions among the names may be private stubs that are called by those
    renamed = any(isinstance(value, External) for value in given.values())
    inside = [name for name in known if name not in module.outside]
    waiting = [name for name in inside if renamed or name not in module.private]
    while waiting:
        name = waiting.pop()
        f = functions[module.widened.get(name, name)]
        module.names = {**f.__globals__, **given, **statics_of(f, given)}
        if name in module.widened:
            kinds = (known[name].result, *known[name].parameters)
            module.names |= zip(_annotations(f), kinds, strict=True)
        made[name] = Translation(module, f, name).run()
        if not waiting:
            wanted = module.called - made.keys() - module.outside
            waiting = [name for name in known if name in wanted]
    chosen = {Effort.BRIEF: brief, Effort.LIGHT: light, Effort.LOOP: loop, Effort.INLINE: plain}
    effort = next((x for x, wanted in chosen.items() if wanted), Effort.OPTIMISE)
    return module.finished([made[name] for name in known if name in made], effort)


def translate_main(main: FunctionType, names: Mapping[str, Any], **care: Any) -> Module:
    """The module of a stub and of all that it calls, which becomes part of it."""
    stubs = called_stubs([main])
    return translate(stubs, names, [f.__name__ for f in stubs if f is not main], **care)


def stubs_of(module: Any) -> list[Callable[..., Any]]:
    """The stubs of a module, in their order."""
    own = [f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__]
    return [f for f in own if getattr(f, "__annotations__", {}).get("return") in KINDS]


def known_to(stub: Any, table: Mapping[str, Any], *others: Any) -> dict[str, Any]:
    """What a stub, and others, are given of a table that a family of stubs shares."""
    known = _parameters((stub, *others))
    return {name: x for name, x in table.items() if name in known or isinstance(x, _OTHERWISE)}


@lru(512)
def _parameters(stubs: tuple[Any, ...]) -> frozenset[str]:
    """The static parameters of stubs and of all that they call."""
    return frozenset([name for f in _reached([*stubs]) for name in static_names(f)])


def called_stubs(stubs: list[FunctionType]) -> list[FunctionType]:
    """Stubs and the stubs that they call, in any order."""
    # straight code is part of who calls it
    return [f for f in _reached(stubs) if not is_straight(f)]


def _reached(stubs: list[FunctionType]) -> list[FunctionType]:
    """Stubs and the stubs that they call, and straight code."""
    found: dict[Any, FunctionType] = {}
    while stubs:
        f = stubs.pop()
        key = f if is_straight(f) else f.__name__
        if key not in found:
            found[key] = f
            known = [f.__globals__.get(name) for name in f.__code__.co_names]
            # the stub language itself is no stub, nor is what else straight code calls
            inner = [g for g in known if isinstance(g, FunctionType) and g.__annotations__]
            stubs += [g for g in inner if g.__module__ != Kind.__module__]
    return [*found.values()]


def signature(f: Callable[..., Any], names: Mapping[str, Any]) -> External:
    """The kinds of a stub's result and parameters, some of which are names for others."""

    def kind(word: Any) -> Kind:
        if not isinstance(word, str):
            raise StubError(f"{f.__name__}: parameters and result are annotated with kinds")
        found = names.get(word) or KINDS.get(word)
        if not isinstance(found, Kind):
            raise StubError(f"{f.__name__}: {word} is not a kind")
        return found

    result, *parameters = map(kind, _annotations(f))
    return External(result, tuple(parameters))


def _annotations(f: Callable[..., Any]) -> list[Any]:
    """The words that a stub's result and parameters are annotated with."""
    names = ("return", *f.__code__.co_varnames[: f.__code__.co_argcount])
    words = [f.__annotations__.get(name) for name in names]
    if all(isinstance(word, str) for word in words):
        return words
    tree = tree_of(f)
    nodes = (tree.returns, *(a.annotation for a in tree.args.args))
    return [getattr(node, "id", None) for node in nodes]


class Translation(Expressions):
    """One stub as text: its statements."""

    def run(self) -> Function:
        names = [a.arg for a in self.tree.args.args]
        kinds = self.signature.parameters
        for name, kind in zip(names, kinds, strict=True):
            self.variables[name] = Operand(f"%a.{name}", kind)
        self.body(self.tree.body)
        if self.open:
            if self.signature.result is not void:
                raise StubError(f"{self.tree.name}: the end is reached without a result")
            self.line("ret void")
        given = tuple([Parameter(k.llvm, f"a.{n}") for n, k in zip(names, kinds, strict=True)])
        hidden = self.tree.name in self.module.private
        return Function(
            self.own_name,
            given,
            ("entry:", *self.head, *self.lines),
            self.signature.result.llvm,
            ("nounwind", "alwaysinline") if hidden else ("nounwind",),
            hidden,
            memory=frozenset(self.memory),
        )

    # --- statements -------------------------------------------------------------------------------

    def body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            if not self.open:
                if self.cut:
                    return
                raise self.fail(statement, "nothing leads here")
            self.value(statement)

    def expr_(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.value(node.value)

    def assign_(self, node: ast.Assign) -> None:
        target, value = node.targets[0], node.value
        if isinstance(value, ast.ListComp):
            each = self.each(value.generators[0].target, self.sequence(value.generators[0].iter))
            self.assign(target, [self.value(value.elt) for _ in each])
        elif isinstance(target, ast.Tuple):
            several = value.elts if isinstance(value, ast.Tuple) else None
            found = self.value(value) if several is None else [self.value(x) for x in several]
            for part, one in zip(target.elts, found, strict=True):
                self.assign(part, one)
        else:
            self.assign(target, self.value(value))

    def annassign_(self, node: ast.AnnAssign) -> None:
        kind = self.constant_name(node.annotation)
        if node.value is None:
            raise self.fail(node, "no value")
        self.assign(node.target, self.as_kind(self.value(node.value), kind, node))

    def augassign_(self, node: ast.AugAssign) -> None:
        left = self.value(node.target)
        self.assign(node.target, self.arithmetic(node, node.op, left, self.value(node.value)))

    def continue_(self, node: ast.Continue) -> None:
        self.exits[-1][1].extend(self.jump(self.exits[-1][0]))

    def break_(self, node: ast.Break) -> None:
        self.exits[-1][3].extend(self.jump(self.exits[-1][2]))

    def pass_(self, node: ast.Pass) -> None:
        pass

    def assign(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Subscript) and (found := self.listed(target)) is not None:
            self.variables[found[self.index(target.slice)]] = value
        elif isinstance(target, ast.Name) and isinstance(value, list):
            places = Places([f"{target.id}[{k}]" for k in range(len(value))])
            self.bound[target.id] = places
            self.variables.update(zip(places, value, strict=True))
        elif isinstance(target, ast.Name):
            if target.id in self.static:
                raise self.fail(target, f"{target.id} is static and is not assigned")
            self.bound.pop(target.id, None)
            kind = self.variables.get(target.id, value).kind
            self.variables[target.id] = self.as_kind(value, kind or i64, target)
        elif isinstance(target, ast.Subscript):
            kind, address = self.place(target)
            given = self.as_kind(value, kind, target)
            self.line(f"store {kind.llvm} {given.text}, ptr {address}, align {kind.lane.size}")
        else:
            raise self.fail(target, "cannot be assigned")

    def if_(self, node: ast.If) -> None:
        known = self.given(node.test)
        if known is not None:
            self.body(node.body if known else node.orelse)
            self.cut |= not self.open
            return
        yes, no, end = self.name_of("then"), self.name_of("else"), self.name_of("end")
        edges = self.branch(self.condition(node.test), yes, no if node.orelse else end)
        before = self.variables.copy()
        self.start(yes)
        self.body(node.body)
        if node.orelse:
            edges = self.jump(end)
            self.start(no)
            self.variables = before
            self.body(node.orelse)
        self.join(end, edges + self.jump(end))

    def while_(self, node: ast.While) -> None:
        head, body, end = self.name_of("head"), self.name_of("body"), self.name_of("end")
        close = self.again(node, head, self.jump(head))
        breaks: list[Edge] = []
        if not (isinstance(node.test, ast.Constant) and node.test.value is True):
            breaks = self.branch(self.condition(node.test), body, end)
            self.start(body)
        close(self.turn(node, head, end, breaks) + self.jump(head))
        self.join(end, breaks)

    def turn(self, node: Any, again: str, end: str, breaks: list[Edge]) -> list[Edge]:
        """The body of a loop: what leads to its next turn before its end."""
        self.exits.append((again, [], end, breaks))
        self.body(node.body)
        return self.exits.pop()[1]

    def for_(self, node: ast.For) -> None:
        call = node.iter
        given = self.sequence(call)
        if given is not None:
            for _ in self.each(node.target, given):
                self.body(node.body)
            return
        assert isinstance(call, ast.Call) and isinstance(node.target, ast.Name)
        args = [self.as_kind(self.value(a), i64, node) for a in call.args]
        low = args[0] if len(args) > 1 else Operand("0", i64)
        high = args[0] if len(args) == 1 else args[1]
        step = int(args[2].text) if len(args) > 2 else 1
        written = "%" not in low.text + high.text
        turns = len(range(int(low.text), int(high.text), step)) if written else None
        self.assign(node.target, low)
        if turns == 0:
            return
        body, latch, end = self.name_of("body"), self.name_of("latch"), self.name_of("end")
        order = "slt" if step > 0 else "sgt"
        if turns is None:
            test = self.emit(f"icmp {order} i64 {low.text}, {high.text}")
            breaks = edges = self.branch(test, body, end)
        else:
            breaks, edges = [], self.jump(body)
        close = self.again(node, body, edges.copy())
        self.join(latch, self.turn(node, latch, end, breaks) + self.jump(latch))
        back: list[Edge] = []
        if self.open and turns != 1:
            after = self.emit(f"add i64 {self.variables[node.target.id].text}, {step}")
            self.variables[node.target.id] = Operand(after, i64)
            back = self.branch(self.emit(f"icmp {order} i64 {after}, {high.text}"), body, end)
        close(back)
        self.join(end, breaks + back + self.jump(end))

    def return_(self, node: ast.Return) -> None:
        result = self.signature.result
        if node.value is None:
            self.line("ret void")
        else:
            value = self.as_kind(self.value(node.value), result, node)
            self.line(f"ret {result.llvm} {value.text}")
        self.open = False
