"""Runs the operations of a module on arrays or tracers, one reader for each operation.

A reader is a function of the reading, the operation and its operands, and gives the result, or a
list of results. Values are arrays, tracers or NumPy arrays: those that are known while a module is
read, from which sizes are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from weft.base.errors import JAXIndexError, JAXTypeError
from weft.control.jit import jit_p, jit_parameters
from weft.core.avals import ShapedArray
from weft.core.jaxpr import ClosedJaxpr
from weft.core.staging import stage
from weft.core.trace import Tracer
from weft.mlir.errors import StableHLOError, Unread, error_at
from weft.mlir.tree import Block, Function, Module, Operation, Other, Tensor, operations_of

Reader = Callable[..., Any]
readers: dict[str, Reader] = {}
SCOPED = {
    "stablehlo.power",
    "stablehlo.real_dynamic_slice",
}  # without regions, whose readers ask where operands come from
MAX_KNOWN = 4096  # elements of a value that is computed while a module is read
MAX_CALLS = 80  # functions that call each other


def reader(*names: str) -> Callable[[Reader], Reader]:
    """Register a reader of operations; names without a dialect are StableHLO's."""

    def register(function: Reader) -> Reader:
        for name in names:
            readers[name if "." in name else f"stablehlo.{name}"] = function
        return function

    return register


class Token:
    """The value of a token: an order between operations, which arrays keep by themselves."""


TOKEN = Token()


class Scope(dict[str, Any]):
    """Values by name; those of the block around are seen."""

    def __init__(self, outer: Scope | None = None) -> None:
        super().__init__()
        self.outer = outer
        self.makers: dict[str, Operation] = {}

    def maker(self, name: str) -> Operation | None:
        """The operation that gives a value, if it is none of a block's arguments."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.makers.get(name)
            if found is not None or name in scope:
                return found
            scope = scope.outer
        return None

    def __missing__(self, name: str) -> Any:
        if self.outer is not None:
            return self.outer[name]
        if name.endswith("#0"):
            return self[name[:-2]]
        raise KeyError(name)


class Reading:
    """A module whose operations are being run."""

    def __init__(self, module: Module, mesh: Any = None) -> None:
        self.module, self.mesh = module, mesh
        self.axes: dict[str, int] = {}  # of a mesh, over which collectives run
        self.all_axes: dict[str, int] = {}  # of the whole mesh, by which devices are numbered
        self.device_kind = ""  # which of partition_id and replica_id numbers devices, if not both
        self.ignored: set[str] = set()  # kinds of annotations that nothing was done about
        self.is_dynamic = any(has_unknown_sizes(f) for f in module.functions.values())
        self.programs: dict[str, ClosedJaxpr] = {}
        self.calls: list[str] = []

    # --- functions --------------------------------------------------------------------------------

    def function(self, name: str) -> Function:
        found = self.module.functions.get(name)
        if found is None:
            raise Unread(f"the module has no function @{name}")
        return found

    def call(self, name: str, args: Sequence[Any]) -> list[Any]:
        """The results of a function, which is staged once."""
        function = self.function(name)
        self._check_arguments(function, args)
        plain = all(isinstance(t, Tensor) for t in (*function.body.types, *function.types))
        if self.is_dynamic or self.axes or not plain:
            return self.run(function, args)
        program = self.programs.get(name)
        if program is None:
            avals = [ShapedArray(t.shape, t.dtype) for t in function.body.types]
            program = stage(lambda *xs: self.run(function, xs), avals)
            self.programs[name] = program
        return list(jit_p.bind(*args, **jit_parameters(program, name)))

    def run(self, function: Function, args: Sequence[Any]) -> list[Any]:
        """The results of a function whose operations are run here."""
        if function.name in self.calls or len(self.calls) >= MAX_CALLS:
            raise Unread(f"the function @{function.name} calls itself")
        self.calls.append(function.name)
        try:
            outs = self.block(function.body, args)
        finally:
            self.calls.pop()
        if len(outs) != len(function.types):
            raise self.error(
                function.position,
                f"the function @{function.name} returns {len(outs)} values, its type has"
                f" {len(function.types)}",
            )
        for i, (x, kind) in enumerate(zip(outs, function.types, strict=True)):
            if not fits(x, kind):
                message = f"result {i} of @{function.name} is {described(x)}, its type {kind}"
                raise self.error(function.position, message)
        return outs

    def _check_arguments(self, function: Function, args: Sequence[Any]) -> None:
        kinds = function.body.types
        if len(args) != len(kinds):
            raise Unread(f"@{function.name} takes {len(kinds)} arguments, got {len(args)}")
        for i, (x, kind) in enumerate(zip(args, kinds, strict=True)):
            if not fits(x, kind):
                raise Unread(f"@{function.name} takes {kind} as argument {i}, got {described(x)}")

    # --- blocks and operations --------------------------------------------------------------------

    def block(self, block: Block, args: Sequence[Any], outer: Scope | None = None) -> list[Any]:
        """What a block returns."""
        scope = Scope(outer)
        if len(args) != len(block.names):
            raise Unread(f"a region takes {len(block.names)} arguments here, not {len(args)}")
        scope.update(zip(block.names, args, strict=True))
        for op in block.operations:
            if op.name.endswith(".return"):
                return [self.value(scope, op, name) for name in op.operands]
            self.operation(op, scope)
        where = block.operations[-1].position if block.operations else 0
        raise self.error(where, "a block ends without a return")

    def region(self, block: Block, scope: Scope) -> Callable[..., list[Any]]:
        """A region as a function of its arguments."""
        return lambda *args: self.block(block, args, scope)

    def value(self, scope: Scope, op: Operation, name: str) -> Any:
        try:
            return scope[name]
        except KeyError:
            raise self.error(op.position, f"{name[:60]} is used before it has a value") from None

    def operation(self, op: Operation, scope: Scope) -> None:
        """Run an operation, and keep its results."""
        found = readers.get(op.name)
        if found is None:
            raise self.error(op.position, unknown(op.name))
        ins = [self.value(scope, op, name) for name in op.operands]
        try:
            if op.operand_types is not None:
                for x, kind in zip(ins, op.operand_types, strict=True):
                    if not fits(x, kind):
                        raise Unread(f"an operand is {described(x)}, its type here {kind}")
            outs = self._folded(op, ins)
            if outs is None:
                takes_scope = op.regions or op.name in SCOPED
                outs = found(self, op, ins, scope) if takes_scope else found(self, op, ins)
            outs = list(outs) if isinstance(outs, (list, tuple)) else [outs]
            self._check_results(op, outs)
        except StableHLOError:
            raise
        except (JAXTypeError, JAXIndexError) as error:
            raise self.error(op.position, _first_line(op, error)) from error
        except RecursionError:
            raise self.error(op.position, f"{op.name} is nested too deeply") from None
        except Exception as error:  # of Unread, and of functions that check their arguments
            raise self.error(op.position, _first_line(op, error)) from error
        if op.results:
            scope.update(zip(op.results, outs, strict=True))
            scope.makers.update(dict.fromkeys(op.results, op))

    def _folded(self, op: Operation, ins: list[Any]) -> list[Any] | None:
        """Results that follow from known values: sizes, indices, and the numbers they come from."""
        fold = FOLDED.get(op.name)
        if fold is None or op.regions or not ins or len(op.types) != 1:
            return None
        for x in ins:
            if not isinstance(x, np.ndarray) or x.size > MAX_KNOWN:
                return None
        kind = op.types[0]
        if not isinstance(kind, Tensor) or prod([n for n in kind.shape if n]) > MAX_KNOWN:
            return None
        if kind.shape and any(x.dtype.kind not in "iub" for x in ins):
            return None
        return fold(self, op, ins)

    def _check_results(self, op: Operation, outs: list[Any]) -> None:
        if len(outs) != len(op.types):
            if not op.results:
                return
            raise Unread(f"it returns {len(outs)} results, but the text has {len(op.types)} types")
        for i, (x, kind) in enumerate(zip(outs, op.types, strict=True)):
            if not fits(x, kind):
                raise Unread(f"result {i} is {described(x)}, its type in the text {kind}")

    def error(self, position: int, message: str) -> StableHLOError:
        return error_at(self.module.text, position, message)

    def check_names(self) -> None:
        """Raise for the first operation that has no reader."""
        for function in self.module.functions.values():
            for op in operations_of(function.body):
                if op.name not in readers and not op.name.endswith(".return"):
                    raise self.error(op.position, unknown(op.name))


# Operations on known values, by NumPy alone: filled by the files that read them.
FOLDED: dict[str, Callable[[Reading, Operation, list[Any]], list[Any]]] = {}


def unknown(name: str) -> str:
    """What an error says of an operation without a reader."""
    if name.partition(".")[0] in ("stablehlo", "chlo", "mhlo"):
        return f"weft cannot read {name[:60]}; express it by other operations of StableHLO"
    return (
        f"weft cannot read {name[:60]}: modules hold StableHLO, CHLO and calls of functions;"
        " legalize other dialects to StableHLO first"
    )


def _first_line(op: Operation, error: Exception) -> str:
    text = str(error).split("\n", 1)[0] or type(error).__name__
    if isinstance(error, KeyError):
        text = f"it lacks the attribute {text}"
    return f"{op.name}: {text}"


def types_of(function: Function) -> list[Any]:
    """The types of a function's arguments and of all results in it."""
    kinds = [*function.body.types, *function.types]
    for op in operations_of(function.body):
        kinds += op.types
    return kinds


def has_unknown_sizes(function: Function) -> bool:
    """Whether an argument or operation has sizes that only a call knows."""
    return any(isinstance(t, Tensor) and None in t.shape for t in types_of(function))


def fits(x: Any, kind: Any) -> bool:
    """Whether a value has a type."""
    if isinstance(kind, Other):
        return isinstance(x, (Token, tuple))
    if isinstance(x, (Token, tuple)):
        return False
    shape = np.shape(x)
    if len(shape) != len(kind.shape) or x.dtype != kind.dtype:
        return False
    return all(n is None or n == m for n, m in zip(kind.shape, shape, strict=True))


def described(x: Any) -> str:
    """The type of a value, in the words of an error."""
    if isinstance(x, (Token, tuple)):
        return "a token" if isinstance(x, Token) else "a tuple"
    return str(Tensor(tuple(np.shape(x)), x.dtype))


def known(x: Any, what: str) -> np.ndarray:
    """A value that must be known while the module is read, such as a shape."""
    if isinstance(x, Tracer) or not isinstance(x, np.ndarray):
        raise Unread(f"{what} must depend only on shapes and constants; here it depends on values")
    return x


def sizes_of(x: Any, what: str) -> tuple[int, ...]:
    """A known vector of sizes."""
    found = tuple([int(n) for n in known(x, what).reshape(-1)])
    if any(n < 0 for n in found):
        raise Unread(f"{what} has negative sizes {found}")
    return found


def result_shape(op: Operation, index: int = 0) -> tuple[int, ...]:
    """The shape of a result, which the text must know."""
    shape = op.types[index].shape
    if None in shape:
        raise Unread(f"its result has the type {op.types[index]}; use the dynamic form of it")
    return tuple(shape)
