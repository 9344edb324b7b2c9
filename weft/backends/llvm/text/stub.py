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
import linecache
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from struct import pack
from types import FunctionType
from typing import Any

import numpy as np

from weft.backends.llvm.code import Effort, Function, Memory, Module, Parameter
from weft.backends.llvm.native import float_mode
from weft.backends.llvm.native.processor import counter
from weft.backends.llvm.text.instructions import Lines, constant_memory
from weft.base import syntax
from weft.base.disk import digest
from weft.base.functional import lru
from weft.base.sizes import Size
from weft.kernel.kinds import KINDS, External, Intrinsic, Kind, i64, ptr, truth, void
from weft.kernel.straight import (
    Operand,
    Straight,
    StubError,
    is_straight,
    number_of,
    static_names,
    statics_of,
)

_ARITHMETIC: dict[type, tuple[str, str, str, Callable[..., Any]]] = {
    ast.Add: ("add", "add", "fadd", operator.add),
    ast.Sub: ("sub", "sub", "fsub", operator.sub),
    ast.Mult: ("mul", "mul", "fmul", operator.mul),
    ast.FloorDiv: ("sdiv", "udiv", "", operator.floordiv),
    ast.Mod: ("srem", "urem", "frem", operator.mod),
    ast.Div: ("", "", "fdiv", operator.truediv),
    ast.LShift: ("shl", "shl", "", operator.lshift),
    ast.RShift: ("ashr", "lshr", "", operator.rshift),
    ast.BitAnd: ("and", "and", "", operator.and_),
    ast.BitOr: ("or", "or", "", operator.or_),
    ast.BitXor: ("xor", "xor", "", operator.xor),
    ast.Pow: ("", "", "", operator.pow),  # of written numbers
}
_COMPARE: dict[type, tuple[str, str, str, Callable[..., bool]]] = {
    ast.Eq: ("eq", "eq", "oeq", operator.eq),
    ast.NotEq: ("ne", "ne", "une", operator.ne),
    ast.Lt: ("slt", "ult", "olt", operator.lt),
    ast.LtE: ("sle", "ule", "ole", operator.le),
    ast.Gt: ("sgt", "ugt", "ogt", operator.gt),
    ast.GtE: ("sge", "uge", "oge", operator.ge),
    ast.Is: ("eq", "eq", "", operator.is_),
    ast.IsNot: ("ne", "ne", "", operator.is_not),
}
# The methods that write each class of node.
_WRITERS = {c: f"{c.__name__.lower()}_" for c in vars(ast).values() if isinstance(c, type)}
# What stubs are given by names that are not parameters: kinds in annotations, and functions.
_OTHERWISE = (Kind, External, Intrinsic, FunctionType)
_FAMILIES = {"signed": 0, "unsigned": 1, "float": 2, "pointer": 1, "truth": 1}


class Places(list[str]):
    """The variables that a list's values are."""


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


@lru(512)
def _tree(f: Callable[..., Any]) -> ast.FunctionDef:
    """The source of a function; of a file that has many, what is not asked for is not read."""
    first, lines = f.__code__.co_firstlineno, linecache.getlines(f.__code__.co_filename)
    margin = lines[first - 1].partition("def ")[0]
    last = first
    while last < len(lines) and (lines[last].removeprefix(margin)[0] in " \n#)"):
        last += 1
    found = syntax.parse("".join([line.removeprefix(margin) for line in lines[first - 1 : last]]))
    assert isinstance(found.body[0], ast.FunctionDef)
    return found.body[0]


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
    tree = _tree(f)
    nodes = (tree.returns, *(a.annotation for a in tree.args.args))
    return [getattr(node, "id", None) for node in nodes]


class Stubs:
    """A module of stubs while it is written."""

    def __init__(self, known: dict[str, External], names: Any, private: Any, outside: Any) -> None:
        self.known = known
        self.given = self.names = names
        self.private, self.outside = private, outside
        self.declared: dict[str, str] = {}
        self.metadata: list[str] = []
        self.memory: dict[str, Memory] = {}
        self.defined: dict[str, Module] = {}  # of functions that are no stubs
        self.called: set[str] = set()
        self.widened: dict[str, str] = {}  # stubs for vectors, and for what they are those

    def widen(self, name: str, lanes: int) -> tuple[str, External]:
        """The stub for vectors that one for single values is, called with them."""
        own, known = f"{name}_{lanes}", self.known[name]
        kinds = tuple([k.of(lanes) for k in known.parameters])
        self.known[own] = External(known.result.of(lanes), kinds)
        self.widened[own] = name
        return own, self.known[own]

    def finished(self, functions: list[Function], effort: Effort) -> Module:
        """The module of the stubs' functions and what they use."""
        memory, metadata = self.memory.values(), self.metadata
        own = Module((), self.declared, memory, effort, metadata=metadata)
        return own.joined(*self.defined.values(), Module(functions))


# A block that leads elsewhere, and what variables are where it ends.
Edge = tuple[str, dict[str, Operand]]


class Translation(Lines):
    """One stub as text. A variable is what it was last given; where blocks meet, LLVM chooses."""

    def __init__(self, module: Stubs, f: Callable[..., Any], name: str) -> None:
        super().__init__()
        self.module = module
        self.tree = _tree(f)
        self.own_name = name
        self.signature = module.known[name]
        self.head: list[str] = []
        self.memory: set[str] = set()
        self.variables: dict[str, Operand] = {}
        self.bound: dict[str, Any] = {}  # names of what is given, and of lists of values
        code = f.__code__
        self.static = frozenset(static_names(f))
        self.own = {*code.co_varnames, *code.co_cellvars} - self.static
        # labels of continue and break, and what leads there
        self.exits: list[tuple[str, list[Edge], str, list[Edge]]] = []
        self.open = True  # whether the text can go on where it stands
        self.cut = False  # whether what follows is left out, as given numbers say
        self.straight = Straight(self, module.given, module.known)

    def fail(self, node: ast.AST, what: str) -> StubError:
        line = ast.unparse(node).splitlines()[0]
        return StubError(f"{self.tree.name}: {what}, in: {line}")

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

    # --- text -------------------------------------------------------------------------------------

    def name_of(self, stem: str) -> str:
        """The name of a block to come."""
        return self.fresh(stem)[1:]

    def start(self, label: str) -> None:
        self.label(label)
        self.open = True

    def jump(self, label: str) -> list[Edge]:
        """Go on elsewhere, if the text can go on at all: what leads there."""
        return self.leave(f"br label %{label}") if self.open else []

    def branch(self, condition: str, yes: str, no: str) -> list[Edge]:
        return self.leave(f"br i1 {condition}, label %{yes}, label %{no}")

    def leave(self, text: str) -> list[Edge]:
        self.line(text)
        self.open = False
        return [(self.block, self.variables.copy())]

    def join(self, label: str, edges: list[Edge]) -> None:
        """Go on where blocks lead, if any do, with the variables that all of them have."""
        if not edges:
            return
        self.start(label)
        _, first = edges[0]
        others = [variables for _, variables in edges[1:]]
        self.variables = {}
        for name, value in first.items():
            found = [variables.get(name) for variables in others]
            if None not in found:
                if found.count(value) < len(found):
                    value = Operand(self.emit(_met(name, edges)), value.kind)
                self.variables[name] = value

    def again(self, node: ast.stmt, label: str, edges: list[Edge]) -> Callable[[list[Edge]], None]:
        """Begin what is gone round: what to call with the edges that lead back."""
        self.start(label)
        names = {*_assigned(node)}
        lists = [self.bound.get(name) for name in names]
        names.update(*(found for found in lists if isinstance(found, Places)))
        old = {name: x for name, x in self.variables.items() if name in names}
        inside = {name: Operand(self.fresh(), x.kind) for name, x in old.items()}
        self.variables |= inside
        place = len(self.lines)

        def close(back: list[Edge]) -> None:
            met = [f"  {x.text} = {_met(name, edges + back)}" for name, x in inside.items()]
            self.lines[place:place] = met

        return close

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

    def given(self, node: ast.expr) -> int | None:
        """What an expression of given numbers comes to; None where it has others."""
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, int) else None
        if isinstance(node, (ast.Name, ast.Attribute)):
            known = self.constant(node)
            return known if isinstance(known, int) else None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            found = self.given(node.operand)
            if found is None:
                return None
            return not found if isinstance(node.op, ast.Not) else -found
        if isinstance(node, ast.BoolOp):
            both = [self.given(value) for value in node.values]
            if None in both:
                return None
            return (all if isinstance(node.op, ast.And) else any)(both)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self.given(node.left), self.given(node.comparators[0])
            if left is not None and right is not None:
                return _COMPARE[type(node.ops[0])][3](left, right)
        return None

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

    def sequence(self, node: ast.expr) -> Any:
        """What is given to go over; None where it is numbers in a loop."""
        if not isinstance(node, ast.Call):
            found = self.constant(node)
            return self.number(node, found) if isinstance(found, Places) else found
        if getattr(node.func, "id", "") != "unrolled":
            return None
        args = [self.value(a).text for a in node.args]
        return None if any(a.startswith("%") for a in args) else range(*map(int, args))

    def each(self, target: ast.expr, given: Iterable[Any]) -> Iterator[None]:
        """Name one thing that is given, or the parts of one, after the other."""
        for item in given:
            pairs = zip(target.elts, item) if isinstance(target, ast.Tuple) else [(target, item)]
            self.bound |= {getattr(part, "id", ""): value for part, value in pairs}
            yield

    def return_(self, node: ast.Return) -> None:
        result = self.signature.result
        if node.value is None:
            self.line("ret void")
        else:
            value = self.as_kind(self.value(node.value), result, node)
            self.line(f"ret {result.llvm} {value.text}")
        self.open = False

    # --- expressions ------------------------------------------------------------------------------

    def value(self, node: ast.expr | ast.stmt) -> Any:
        """What an expression comes to; the same writes statements."""
        write = getattr(self, _WRITERS[type(node)], None)
        if write is None:
            is_statement = isinstance(node, ast.stmt)
            raise self.fail(node, f"no such {'statement' if is_statement else 'expression'}")
        return write(node)

    def constant_(self, node: ast.Constant) -> Operand:
        return self.number(node, node.value)

    def binop_(self, node: ast.BinOp) -> Operand:
        return self.arithmetic(node, node.op, self.value(node.left), self.value(node.right))

    def subscript_(self, node: ast.Subscript) -> Operand:
        if (found := self.listed(node)) is not None:
            one = found[self.index(node.slice)]
            return self.variables[one] if isinstance(found, Places) else self.number(node, one)
        kind, address = self.place(node)
        text = f"load {kind.llvm}, ptr {address}, align {kind.lane.size}"
        return Operand(self.emit(text), kind)

    def listed(self, node: ast.Subscript) -> Any:
        """The values that a name in front of a number stands for, if it stands for several."""
        found = self.constant(node.value)
        return None if isinstance(found, Kind) else found

    def index(self, node: ast.expr) -> int:
        found = self.given(node)
        return int(self.value(node).text) if found is None else found

    def number(self, node: ast.AST, value: Any) -> Any:
        if isinstance(value, Operand):
            return value
        if isinstance(value, Places):
            return [self.variables[place] for place in value]
        if isinstance(value, np.ndarray):
            name = f"array{digest(value.tobytes()).hex()[:16]}"
            self.module.memory[name] = constant_memory(name, value)
            self.memory.add(name)
            return Operand(f"@{name}", ptr)
        if value is None:
            return Operand("null", ptr)
        if value is True or value is False:
            return Operand(str(value).lower(), truth)
        if isinstance(value, (int, Size, str, float)):
            return Operand(str(value), None)
        raise self.fail(node, f"{value!r} is not a number")

    def name_(self, node: ast.Name | ast.Attribute) -> Operand:
        if isinstance(node, ast.Name) and self.is_variable(node.id):
            return self.variables[node.id]
        value = self.constant(node, self)
        if value is self:
            raise self.fail(node, f"{ast.unparse(node)} has no value")
        return self.number(node, value)

    attribute_ = name_

    def constant(self, node: ast.expr, missing: Any = None) -> Any:
        """What a name from outside stands for, which may be that of a module and one in it."""
        if isinstance(node, ast.Attribute):
            return getattr(self.constant(node.value), node.attr, missing)
        assert isinstance(node, ast.Name)
        if self.is_variable(node.id) or (node.id in self.own and node.id not in self.bound):
            return missing
        return self.bound.get(node.id, self.module.names.get(node.id, missing))

    def is_variable(self, name: str) -> bool:
        return name in self.variables and name not in self.bound

    def constant_name(self, node: ast.AST) -> Kind:
        """The kind that a name stands for."""
        if isinstance(node, ast.Name):
            found = self.constant(node) or KINDS.get(node.id)
            if isinstance(found, Kind):
                return found
        raise self.fail(node, "no kind")

    def as_kind(self, value: Operand, kind: Kind, node: ast.AST) -> Operand:
        """A number as a kind; anything else must have it."""
        if value.kind is None:
            if kind.lanes > 1:
                lane = self.as_kind(value, kind.lane, node)
                return Operand(f"splat ({kind.lane.llvm} {lane.text})", kind)
            if kind.family == "float":
                return Operand(f"0x{pack('>d', float(value.text)).hex().upper()}", kind)
            if kind.family == "pointer" or "." in value.text:
                raise self.fail(node, f"{value.text} is not a {kind}")
            return Operand(value.text, kind)
        if value.kind is not kind:
            raise self.fail(node, f"{value.kind} where {kind} belongs")
        return value

    def same(self, node: ast.AST, left: Operand, right: Operand) -> tuple[Operand, Operand, Kind]:
        kind = left.kind or right.kind or i64
        return self.as_kind(left, kind, node), self.as_kind(right, kind, node), kind

    def arithmetic(self, node: ast.AST, op: ast.operator, left: Operand, right: Operand) -> Operand:
        if left.kind is ptr and isinstance(op, ast.Add):
            offset = self.as_kind(right, i64, node).text
            return Operand(self.emit(f"getelementptr i8, ptr {left.text}, i64 {offset}"), ptr)
        written = left.kind is None and right.kind is None
        if written and "%" not in left.text + right.text:
            fold = _ARITHMETIC[type(op)][3]
            return Operand(str(fold(number_of(left.text), number_of(right.text))), None)
        left, right, kind = self.same(node, left, right)
        word = _ARITHMETIC[type(op)][_FAMILIES[kind.family]]
        if not word or kind is ptr:
            raise self.fail(node, f"no such operation of {kind}")
        return Operand(self.emit(f"{word} {kind.llvm} {left.text}, {right.text}"), kind)

    def unaryop_(self, node: ast.UnaryOp) -> Operand:
        if isinstance(node.op, ast.Not):
            return Operand(self.emit(f"xor i1 {self.condition(node.operand)}, true"), truth)
        value = self.value(node.operand)
        if value.kind is None:
            sign = "-" if isinstance(node.op, ast.USub) else "~"
            return Operand(str(-number_of(value.text) if sign == "-" else ~int(value.text)), None)
        kind = value.kind
        if kind.family == "float":
            return Operand(self.emit(f"fneg {kind.llvm} {value.text}"), kind)
        word, number = ("xor", "-1") if isinstance(node.op, ast.Invert) else ("sub", "0")
        other = self.as_kind(Operand(number, None), kind, node)
        return Operand(self.emit(f"{word} {kind.llvm} {other.text}, {value.text}"), kind)

    def condition(self, node: ast.expr) -> str:
        """An expression as one bit."""
        return self.test(node).text

    def test(self, node: ast.expr) -> Operand:
        """An expression as one bit, or one a lane."""
        if isinstance(node, ast.BoolOp):
            return Operand(self.short_circuit(node), truth)
        if isinstance(node, ast.Compare):
            left, right = self.value(node.left), self.value(node.comparators[0])
            return self.compared(type(node.ops[0]), *self.same(node, left, right))
        value = self.value(node)
        kind = value.kind or i64
        if kind.family == "truth":
            return value
        zero = "null" if kind is ptr else "0"
        return Operand(self.emit(f"icmp ne {kind.llvm} {value.text}, {zero}"), truth)

    compare_ = boolop_ = test

    def compared(self, op: type, left: Operand, right: Operand, kind: Kind) -> Operand:
        word = _COMPARE[op][_FAMILIES[kind.family]]
        compare = "fcmp" if kind.family == "float" else "icmp"
        text = f"{compare} {word} {kind.llvm} {left.text}, {right.text}"
        return Operand(self.emit(text), truth.of(kind.lanes))

    def short_circuit(self, node: ast.BoolOp) -> str:
        """``and`` and ``or``: what comes later is looked at only if it matters."""
        end, found = self.name_of("end"), []
        for i, part in enumerate(node.values):
            test = self.condition(part)
            found.append(f"[ {test}, %{self.block} ]")
            if i + 1 < len(node.values):
                more = self.name_of("more")
                both = isinstance(node.op, ast.And)
                self.branch(test, more if both else end, end if both else more)
                self.start(more)
        self.jump(end)
        self.start(end)
        return self.emit(f"phi i1 {', '.join(found)}")

    def ifexp_(self, node: ast.IfExp) -> Operand:
        known = self.given(node.test)
        if known is not None:
            return self.value(node.body if known else node.orelse)
        test = self.test(node.test)
        left, right, kind = self.same(node, self.value(node.body), self.value(node.orelse))
        return self.chosen(test, left, right, kind)

    def chosen(self, test: Operand, left: Operand, right: Operand, kind: Kind) -> Operand:
        assert test.kind is not None
        both = f"{kind.llvm} {left.text}, {kind.llvm} {right.text}"
        return Operand(self.emit(f"select {test.kind.llvm} {test.text}, {both}"), kind)

    def place(self, node: ast.Subscript) -> tuple[Kind, str]:
        """The kind and the address of an element."""
        if not isinstance(node.slice, ast.Tuple) or len(node.slice.elts) != 2:
            raise self.fail(node, "an element is kind[address, number]")
        kind = self.constant_name(node.value)
        base = self.as_kind(self.value(node.slice.elts[0]), ptr, node)
        number = self.as_kind(self.value(node.slice.elts[1]), i64, node)
        if number.text == "0":
            return kind, base.text
        text = f"getelementptr {kind.llvm}, ptr {base.text}, i64 {number.text}"
        return kind, self.emit(text)

    # --- calls ------------------------------------------------------------------------------------

    def call_(self, node: ast.Call) -> Operand:
        name: str = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
        if name in ("min", "max"):
            return self.extreme(node, name)
        if name == "stack":
            size = self.value(node.args[0]).text
            if not size.isdigit():
                return Operand(self.emit(f"alloca i8, i64 {size}, align 64"), ptr)
            memory = f"%m.{self.name_of('s')}"
            self.head.append(f"  {memory} = alloca [{size} x i8], align 64")
            return Operand(memory, ptr)
        if name == "bits":
            kind = self.constant_name(node.args[0])
            return Operand(self.bitcast(self.value(node.args[1]), kind), kind)
        if name == "shuffle":
            left, right, kind = self.same(node, *map(self.value, node.args[:2]))
            lanes = self.constant(node.args[2])
            return Operand(self.shuffle(kind.llvm, left.text, right.text, lanes), kind)
        if name == "clock":
            declared, self.module.metadata, call, _ = counter()
            self.module.declared["clock"] = declared
            return Operand(self.emit(call), i64)
        if name in ("float_mode", "set_float_mode"):
            return self.known_call(node, name, float_mode.words()[name])
        if name == "invoke":
            kind = self.constant_name(node.args[0])
            function, *args = [self.value(a) for a in node.args[1:]]
            given = ", ".join(f"{(a.kind or i64).llvm} {a.text}" for a in args)
            return self.result(kind, f"call {kind.llvm} {function.text}({given})")
        known = self.constant(node.func)
        if is_straight(known):
            return self.straight.call(known, [self.value(a) for a in node.args])
        known = self.module.known.get(name) or known
        if isinstance(known, External):
            return self.known_call(node, name, known)
        if isinstance(known, Intrinsic):
            return self.intrinsic(node, known)
        return self.convert(self.value(node.args[0]), self.constant_name(node.func), node)

    def known_call(self, node: ast.Call, name: str, known: External) -> Operand:
        if len(node.args) != len(known.parameters):
            raise self.fail(node, f"{name} takes {len(known.parameters)} arguments")
        return self.called(node, name, known, [self.value(a) for a in node.args])

    def called(self, node: ast.AST, name: str, known: External, args: list[Operand]) -> Operand:
        """What a function returns."""
        lanes = max([a.kind.lanes for a in args if a.kind is not None], default=1)
        if name not in self.module.known or name in self.module.outside:
            if known.definition is not None:
                self.module.defined[name] = known.definition
            else:
                kinds = ", ".join(k.llvm for k in known.parameters)
                self.module.declared[name] = f"declare {known.result.llvm} @{name}({kinds})"
        elif lanes > max([k.lanes for k in known.parameters], default=1):
            name, known = self.module.widen(name, lanes)
        self.module.called.add(name)
        pairs = zip(args, known.parameters, strict=True)
        given = [f"{k.llvm} {self.as_kind(a, k, node).text}" for a, k in pairs]
        return Operand(self.call_function(name, given, known.result.llvm), known.result)

    def written(self, number: Any, kind: Kind) -> str:
        """A number of straight code as text."""
        return self.as_kind(Operand(str(number), None), kind, self.tree).text

    def intrinsic(self, node: ast.Call, known: Intrinsic) -> Operand:
        args = [self.value(a) for a in node.args]
        kind = next(a.kind for a in args if a.kind is not None)
        return self.instruction(known, [self.as_kind(a, a.kind or kind, node) for a in args])

    def instruction(self, known: Intrinsic, args: list[Any]) -> Operand:
        name, result, declared = _declared(known, *[a.kind for a in args])
        self.module.declared[name] = declared
        given = ", ".join([f"{a.kind.llvm} {a.text}" for a in args])
        return self.result(result, f"call {result.llvm} {name}({given})")

    def result(self, kind: Kind, text: str) -> Operand:
        if kind is void:
            self.line(f"{text}")
            return Operand("", void)
        return Operand(self.emit(text), kind)

    def extreme(self, node: ast.Call, name: str) -> Operand:
        pair = self.same(node, self.value(node.args[0]), self.value(node.args[1]))
        return self.chosen(self.compared(ast.Lt if name == "min" else ast.Gt, *pair), *pair)

    def bitcast(self, value: Operand, kind: Kind) -> str:
        assert value.kind is not None
        if value.kind.llvm == kind.llvm:
            return value.text
        word = "ptrtoint" if value.kind is ptr else "inttoptr" if kind is ptr else "bitcast"
        return self.emit(f"{word} {value.kind.llvm} {value.text} to {kind.llvm}")

    def convert(self, value: Operand, kind: Kind, node: ast.AST) -> Operand:
        """A value as another kind, by value."""
        have = value.kind
        if have is None:
            return self.as_kind(value, kind, node)
        if have.llvm == kind.llvm:
            return Operand(value.text, kind)
        if kind.lanes > have.lanes:
            one = self.convert(value, kind.lane, node).text
            return Operand(self.in_all_lanes(kind.llvm, kind.lane.llvm, kind.lanes, one), kind)
        if "pointer" in (have.family, kind.family):
            return Operand(self.bitcast(value, kind), kind)
        floats = (have.family == "float", kind.family == "float")
        if floats == (True, True):
            word = "fptrunc" if kind.size < have.size else "fpext"
        elif floats[0]:
            word = "fptosi" if kind.family == "signed" else "fptoui"
        elif floats[1]:
            word = "sitofp" if have.family == "signed" else "uitofp"
        elif kind.size < have.size or kind is truth:
            word = "trunc"
        else:
            word = "sext" if have.family == "signed" else "zext"
        return Operand(self.emit(f"{word} {have.llvm} {value.text} to {kind.llvm}"), kind)


@lru(512)
def _declared(known: Intrinsic, *kinds: Kind) -> tuple[str, Kind, str]:
    """The name of an instruction for values of these kinds, its result, and its declaration."""
    kind = kinds[0]
    lane = f"f{8 * kind.lane.size}" if kind.family == "float" else kind.lane.llvm
    word = f".{f'v{kind.lanes}' * (kind.lanes > 1)}{lane}"
    name = f"@llvm.{known.name}{word * known.named}"
    result = known.result or (kind.lane if known.reduces else kind)
    return name, result, f"declare {result.llvm} {name}({', '.join([k.llvm for k in kinds])})"


def _assigned(node: Any) -> Iterator[str]:
    """The variables that a statement assigns to."""
    targets = [*getattr(node, "targets", ()), getattr(node, "target", None)]
    for target in [part for t in targets for part in getattr(t, "elts", [t])]:
        if isinstance(target, ast.Subscript):
            target = target.value  # a place of a list
        if isinstance(target, ast.Name):
            yield target.id
    for inner in (*getattr(node, "body", ()), *getattr(node, "orelse", ())):
        yield from _assigned(inner)


def _met(name: str, edges: list[Edge]) -> str:
    """What a variable is where blocks lead."""
    found = [f"[ {variables[name].text}, %{block} ]" for block, variables in edges]
    kind = edges[0][1][name].kind
    assert kind is not None
    return f"phi {kind.llvm} {', '.join(found)}"
