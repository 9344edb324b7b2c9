"""Programs for GPUs kept on disk, next to the machine code of their kernels.

An entry holds launches, which name kernels by the keys of their code, and operations, which ask
their libraries again. Constants and lines are those of the program that is at hand when an entry is
read; nothing of a user's is written.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from weft.backends.cuda import assemble, driver, ptx
from weft.backends.cuda.assemble import Assembled, Deferred
from weft.backends.cuda.forms.deferred import Form, Nest, expanded, form_of
from weft.base import disk, knobs
from weft.base.source import UNKNOWN, SourceInfo
from weft.compiler.identity import Identity
from weft.core.interpret import constant_value
from weft.core.jaxpr import ClosedJaxpr, Jaxpr, JaxprEqn, Var
from weft.core.primitive import Primitive
from weft.core.registry import primitives
from weft.kernel.program import Op
from weft.runtime.array import ArrayImpl

# Bytes of constants that planning itself has made, beyond which a program is not kept.
MAX_CONSTANT_BYTES = 1 << 16
# Where what an entry is made of comes from.
_SOURCES = ("weft.", "numpy", "ml_dtypes")
_PLAIN = frozenset(["frozenset", "set", "slice", "complex", "range", "bytearray"])


class _Tied(Exception):
    """A program with something in it that another process does not have."""


class _Missing(Exception):
    """An entry that names something that is not there."""


def _setting() -> bytes:
    """What code on the disk depends on, apart from the program."""
    device = driver.device()
    kind = f"{device.name} sm_{device.architecture} {device.multiprocessors}"
    share = knobs.gpu_rematerialise.value
    return f"cuda {kind} {ptx.version()} {share}\n".encode()


def find(walked: Identity) -> Assembled | None:
    """A program that was kept, assembled for the GPU at hand; None where something is missing."""
    if not disk.has_entries():
        return None
    name = walked.key(_setting())
    blob = None if name is None else disk.load(name)
    if blob is None:
        return None
    try:
        form: Form = _Reader(io.BytesIO(blob), walked).load()
    except (_Missing, pickle.UnpicklingError, EOFError, AttributeError, LookupError, TypeError):
        return None
    program = form.program
    constants = list(program.constants)
    given = {}
    for number, place in program.given.items():
        value, aval = walked.consts[place]
        constants[number], given[number] = constant_value(value, aval), value
    return expanded(form, program._replace(constants=constants, given=given))


def keep(walked: Identity, made: Assembled) -> None:
    """Write an assembled program to disk."""
    try:
        form = _portable(walked, form_of(made))
    except (_Tied, KeyError):
        return
    setting = _setting()

    def entry() -> tuple[bytes, bytes] | None:
        name = walked.key(setting)
        if name is None:
            return None
        file = io.BytesIO()
        try:
            _Writer(file, walked).dump(form)
        except (_Tied, pickle.PicklingError, TypeError, AttributeError, ValueError):
            return None
        return name, file.getvalue()

    disk.save_later(entry)


def _portable(walked: Identity, form: Form) -> Form:
    """A form whose constants are named by where they stand in the program."""
    program = form.program
    given = {n: walked.const_numbers[id(value)] for n, value in program.given.items()}
    own = [x for n, x in enumerate(program.constants) if n not in given]
    if sum(x.nbytes for x in own) > MAX_CONSTANT_BYTES:
        raise _Tied
    _check(form.entries)
    constants = [None if n in given else x for n, x in enumerate(program.constants)]
    return form._replace(program=program._replace(constants=constants, given=given))


def _check(entries: Any) -> None:
    """Refuse what is not kept: messages, users' functions, kernels without code on the disk."""
    for entry in entries:
        if type(entry) is Deferred:
            if type(entry.node) is not Op or entry.node.eqn.effects:
                raise _Tied
        elif type(entry) is Nest:
            for region in entry.regions:
                _check(region)
        elif not getattr(getattr(entry.command, "function", None), "key", b"-"):
            raise _Tied
        elif hasattr(entry.command, "eqn"):
            raise _Tied


def _primitive(kind: type, name: str) -> Any:
    """A primitive, whose class is there by now."""
    return primitives[name]


def _equation(primitive: Any, params: Any, ins: Any, outs: Any, lines: Any) -> JaxprEqn:
    given: list[Any] = [Var(aval) for aval in ins]
    made = [Var(aval) for aval in outs]
    return JaxprEqn(given, made, primitive, params, source_info=lines)


class _Writer(pickle.Pickler):
    """Writes entries: what every process has is named, not written."""

    def __init__(self, file: Any, walked: Identity) -> None:
        super().__init__(file, 5)
        infos = enumerate(walked.infos)
        self.lines = {(x.code, x.lasti): i for i, x in infos if type(x) is SourceInfo}

    def persistent_id(self, x: Any) -> Any:
        if type(x) is SourceInfo:
            return ("line", self.lines.get((x.code, x.lasti), -1))
        if isinstance(x, driver.Function):
            return ("kernel", x.key, x.name, x.dynamic, x.waits)
        if isinstance(x, (ClosedJaxpr, Jaxpr, ArrayImpl)):
            raise _Tied
        return None

    def reducer_override(self, x: Any) -> Any:
        if isinstance(x, Primitive):
            return _primitive, (type(x), x.name)
        if type(x) is JaxprEqn:
            ins, outs = ([v.aval for v in xs] for xs in (x.invars, x.outvars))
            return _equation, (x.primitive, x.params, ins, outs, x.source_info)
        return NotImplemented


class _Reader(pickle.Unpickler):
    """Reads entries: they name nothing but what weft and NumPy have."""

    def __init__(self, file: Any, walked: Identity) -> None:
        super().__init__(file)
        self.infos = walked.infos

    def persistent_load(self, told: Any) -> Any:
        kind, *rest = told
        if kind == "line":
            return UNKNOWN if rest[0] < 0 else self.infos[rest[0]]
        function = assemble.load_known(*rest)
        if function is None:
            raise _Missing
        return function

    def find_class(self, module: str, name: str) -> Any:
        if not (module + ".").startswith(_SOURCES) and (module != "builtins" or name not in _PLAIN):
            raise pickle.UnpicklingError(f"an entry of the cache names {module}.{name}")
        return super().find_class(module, name)
