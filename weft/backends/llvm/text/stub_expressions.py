"""What the expressions of stubs come to, and the blocks that their control flow is made of.

`stub.py` says what the language is, and writes statements.
"""

from __future__ import annotations

import ast
import linecache
import operator
from collections.abc import Callable, Iterable, Iterator
from struct import pack
from typing import Any

import numpy as np

from weft.backends.llvm.code import Effort, Function, Memory, Module
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
_FAMILIES = {"signed": 0, "unsigned": 1, "float": 2, "pointer": 1, "truth": 1}


class Places(list[str]):
    """The variables that a list's values are."""


@lru(512)
def tree_of(f: Callable[..., Any]) -> ast.FunctionDef:
    """The source of a function; of a file that has many, what is not asked for is not read."""
    first, lines = f.__code__.co_firstlineno, linecache.getlines(f.__code__.co_filename)
    margin = lines[first - 1].partition("def ")[0]
    last = first
    while last < len(lines) and (lines[last].removeprefix(margin)[0] in " \n#)"):
        last += 1
    found = syntax.parse("".join([line.removeprefix(margin) for line in lines[first - 1 : last]]))
    assert isinstance(found.body[0], ast.FunctionDef)
    return found.body[0]


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


class Expressions(Lines):
    """One stub as text, as far as its expressions and the blocks of its control flow. A variable is
    what it was last given; where blocks meet, LLVM chooses."""

    def __init__(self, module: Stubs, f: Callable[..., Any], name: str) -> None:
        super().__init__()
        self.module = module
        self.tree = tree_of(f)
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

    # --- what is given ----------------------------------------------------------------------------

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
