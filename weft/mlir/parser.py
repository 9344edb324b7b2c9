"""MLIR text to modules: the generic form of operations, and what they stand in."""

from __future__ import annotations

from typing import Any

from weft.mlir.attributes import Attributes, parse_type, result_types, type_list
from weft.mlir.forms import Parts, parse_short
from weft.mlir.lexer import END, Cursor
from weft.mlir.tree import Block, Function, Module, Operation, Other, Raw, Symbol, Tensor

MAX_REGIONS = 100  # one in another
BARE = ("return", "call")  # names of operations without a dialect


def parse(text: str) -> Module:
    """The module of a text."""
    return Parser(text).module()


class Parser:
    """A text being read."""

    def __init__(self, text: str) -> None:
        self.c = Cursor(text)
        self.attributes = Attributes(self.c)
        self.depth = 0

    # --- modules and functions --------------------------------------------------------------------

    def module(self) -> Module:
        """All of the text: one module, or functions without one."""
        c, found = self.c, Module(self.c.text)
        self._aliases()
        if c.word == '"builtin.module"':
            self._generic_module(found)
        elif c.next_is("module") or c.next_is("builtin.module"):
            c.take()
            if c.kind == "symbol":
                found.name = c.take()[1:].strip('"')
            if c.accept("attributes"):
                found.attributes = self.attributes.dictionary()
            c.expect("{")
            self._members(found, "}")
            c.expect("}")
            c.skip_location()
        else:
            self._members(found, "")
        self._aliases()
        if c.kind != END:
            c.fail(f"expected the end of the module, found {c.found}")
        if not found.functions:
            c.fail("the module has no function", 0)
        return found

    def _members(self, module: Module, end: str) -> None:
        c = self.c
        while c.kind != END and not (end and c.next_is(end)):
            if self._is_alias():
                self._aliases()
            elif c.next_is("func.func"):
                self._add(module, self.function())
            elif c.word == '"func.func"':
                self._add(module, self._generic_function(self.operation()))
            elif c.next_is("sdy.mesh"):
                self._mesh(module)
            else:
                c.fail(f"expected a function, found {c.found}")

    def _add(self, module: Module, function: Function) -> None:
        if function.name in module.functions:
            self.c.fail(f"there are two functions @{function.name}", function.position)
        module.functions[function.name] = function

    def _aliases(self) -> None:
        """``#name = attribute``, and constants kept outside."""
        c = self.c
        while self._is_alias():
            name = c.take()
            if c.accept("="):
                self.attributes.aliases[name[1:]] = self.attributes.value()

    def _is_alias(self) -> bool:
        c = self.c
        return c.kind == "resources" or (c.kind in ("alias", "bang") and c.next_is("=", 1))

    def _mesh(self, module: Module) -> None:
        """``sdy.mesh @mesh = <["x"=2]>``."""
        c = self.c
        c.take()
        name = c.expect_kind("symbol", "the name of a mesh")[1:].strip('"')
        c.expect("=")
        if not c.next_is("<"):
            c.fail(f"expected '<', found {c.found}")
        module.meshes[name] = Raw("mesh", c.skip_balanced())
        if c.next_is("{"):
            self.attributes.dictionary()
        c.skip_location()

    def function(self) -> Function:
        """``func.func public @main(%a: t {..}) -> (t {..}) attributes {..} {...}``."""
        c, position = self.c, self.c.position
        c.take()
        visibility = c.take() if c.word in ("public", "private", "nested") else "public"
        name = c.expect_kind("symbol", "the name of a function")[1:].strip('"')
        given: list[dict[str, Any]] = []
        names, types = self.arguments(given)
        results: list[Any] = []
        marks: list[dict[str, Any]] = []
        if c.kind == "arrow":
            c.take()
            results, marks = self._function_results()
        if c.accept("attributes"):
            self.attributes.dictionary()
        if not c.next_is("{"):
            c.fail(f"the function @{name} has no body; weft runs whole modules")
        body = self.region(names, types)
        c.skip_location()
        return Function(name, visibility == "public", body, results, given, marks, position)

    def _function_results(self) -> tuple[list[Any], list[dict[str, Any]]]:
        c = self.c
        if not c.accept("("):
            return [self.attributes.type()], [{}]
        types: list[Any] = []
        marks: list[dict[str, Any]] = []
        while not c.accept(")"):
            if types:
                c.expect(",")
            types.append(self.attributes.type())
            marks.append(self.attributes.dictionary() if c.next_is("{") else {})
        return types, marks

    def arguments(self, given: list[dict[str, Any]] | None = None) -> tuple[list[str], list[Any]]:
        """``(%a: t, %b: t)``."""
        c = self.c
        names: list[str] = []
        types: list[Any] = []
        c.expect("(")
        while not c.accept(")"):
            if names:
                c.expect(",")
            names.append(c.expect_kind("value", "an argument"))
            c.expect(":")
            types.append(self.attributes.type())
            marks = self.attributes.dictionary() if c.next_is("{") else {}
            if given is not None:
                given.append(marks)
            c.skip_location()
        return names, types

    def _generic_module(self, module: Module) -> None:
        op = self.operation()
        if len(op.regions) != 1:
            self.c.fail("a module has one region", op.position)
        name = op.attributes.get("sym_name")
        module.name = str(name) if name else module.name
        module.attributes = op.attributes
        for inner in op.regions[0].operations:
            if inner.name == "func.func":
                self._add(module, self._generic_function(inner))
            elif inner.name == "sdy.mesh":
                mesh = inner.attributes.get("mesh")
                module.meshes[str(inner.attributes.get("sym_name"))] = mesh
            else:
                self.c.fail(f"{inner.name} is no function", inner.position)

    def _generic_function(self, op: Operation) -> Function:
        given, kind = op.attributes, op.attributes.get("function_type")
        name = given.get("sym_name")
        if not isinstance(name, str) or not (isinstance(kind, Other) and kind.name == "function"):
            self.c.fail("a function has a sym_name and a function_type", op.position)
        if len(op.regions) != 1 or len(op.regions[0].types) != len(kind.parts[0]):
            self.c.fail(f"the function @{name} has no body for its arguments", op.position)
        marks = []
        for key, count in (("arg_attrs", len(kind.parts[0])), ("res_attrs", len(kind.parts[1]))):
            found = given.get(key, [])
            found = [x if isinstance(x, dict) else {} for x in found] if type(found) is list else []
            marks.append((found + [{}] * count)[:count])
        is_public = given.get("sym_visibility", "public") == "public"
        types = list(kind.parts[1])
        return Function(name, is_public, op.regions[0], types, marks[0], marks[1], op.position)

    # --- blocks -----------------------------------------------------------------------------------

    def region(self, names: list[str] | None = None, types: list[Any] | None = None) -> Block:
        """``{...}``: one block; its arguments are given, or named at its beginning."""
        c = self.c
        self.depth += 1
        if self.depth > MAX_REGIONS:
            c.fail(f"regions are nested more than {MAX_REGIONS} deep")
        c.expect("{")
        block = Block(names or [], types or [])
        if c.kind == "label":
            c.take()
            if c.next_is("("):
                block.names, block.types = self.arguments()
            c.expect(":")
        while not c.accept("}"):
            if c.kind == "label":
                c.fail("a region has one block here; StableHLO has no jumps between blocks")
            block.operations.append(self.operation())
        self.depth -= 1
        return block

    # --- operations -------------------------------------------------------------------------------

    def operation(self) -> Operation:
        """One operation in either form."""
        c, position = self.c, self.c.position
        results = self._results() if c.kind == "value" else []
        if c.kind == "string":
            return self._generic(results, position)
        name = c.expect_kind("word", "an operation")
        if "." not in name and name not in BARE:
            c.fail(f"expected an operation, found {name[:40]!r}", c.starts[c.at - 1])
        parts = parse_short(self, name)
        operand_types, types = parts.types or self.signature(len(results))
        name = {"call": "func.call", "return": "func.return"}.get(name, name)
        return self._made(name, results, parts, types, operand_types, position)

    def _results(self) -> list[str]:
        """``%0:2, %a =``, as the names of all results."""
        c = self.c
        found: list[str] = []
        while True:
            name = c.expect_kind("value", "a result")
            if c.accept(":"):
                word = c.expect_kind("number", "a number of results")
                if not word.isdigit() or len(word) > 4:
                    c.fail(f"{word[:20]!r} is no number of results")
                found += [f"{name}#{i}" for i in range(int(word))]
            else:
                found.append(name)
            if not c.accept(","):
                break
        c.expect("=")
        return found

    def _generic(self, results: list[str], position: int) -> Operation:
        """``"name"(%a) <{..}> ({...}) {..} : (t) -> t``."""
        c, parts = self.c, Parts()
        name = c.take().strip('"')
        c.expect("(")
        while not c.accept(")"):
            if parts.operands:
                c.expect(",")
            parts.operands.append(c.expect_kind("value", "an operand"))
        if c.next_is("<") and c.next_is("{", 1):
            c.take()
            parts.attributes = self.attributes.dictionary()
            c.expect(">")
        if c.next_is("("):
            c.take()
            while not c.accept(")"):
                if parts.regions:
                    c.expect(",")
                parts.regions.append(self.region())
        if c.next_is("{"):
            parts.attributes.update(self.attributes.dictionary())
        c.expect(":")
        operand_types = type_list(c, self.attributes.known)
        c.expect_kind("arrow", "'->'")
        types = result_types(c, self.attributes.known)
        return self._made(name, results, parts, types, operand_types, position)

    def signature(self, count: int) -> tuple[list[Any] | None, list[Any]]:
        """The types after ``:``: those of operands, if they are written, and of results."""
        c, known = self.c, self.attributes.known
        if not c.accept(":"):
            return None, []
        given = type_list(c, known) if c.next_is("(") else [parse_type(c, known)]
        while c.accept(","):
            given.append(parse_type(c, known))
        if c.kind == "arrow":
            c.take()
            return given, result_types(c, known)
        if count == 0 or len(given) == count:
            return None, given[:count]
        return None, given[-1:] * count

    def scalar(self, kind: Any) -> Any:
        """The type of a number of an array."""
        if not isinstance(kind, Tensor):
            self.c.fail(f"a reduction is one of arrays, not of {kind}")
        return Tensor((), kind.dtype)

    def _made(
        self,
        name: str,
        results: list[str],
        parts: Parts,
        types: list[Any],
        operand_types: list[Any] | None,
        position: int,
    ) -> Operation:
        self.c.skip_location()
        given = parts.attributes
        if results and len(results) != len(types):
            self.c.fail(f"{name} gives {len(types)} results, {len(results)} are named", position)
        if operand_types is not None and len(operand_types) != len(parts.operands):
            message = f"{name} has {len(parts.operands)} operands and {len(operand_types)} types"
            self.c.fail(message, position)
        if isinstance(given.get("callee"), str):
            given["callee"] = Symbol(given["callee"])
        return Operation(
            name, results, parts.operands, given, parts.regions, types, operand_types, position
        )
