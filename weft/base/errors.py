"""The error classes users catch, with texts that name the value, the line and what to write.

Tracers are known here only by what they offer: `aval`, and optionally `_origin_msg()`, a
sentence saying which function is traced and which argument the value comes from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from weft.base import source


def located(message: str, fix: str = "", where: source.SourceInfo | None = None) -> str:
    """`message` with the user's line behind it, the one that runs unless it is given, and advice
    below.

    >>> print(located("add got shapes (3,) and (4,)", "Make the shapes equal."))
    add got shapes (3,) and (4,) — <doctest ...located[0]>:1
    Make the shapes equal.
    """
    here = where or source.current()
    if here.code is not None:
        message = f"{message} — {_line_of(here)}{_function_of(here)}"
    return f"{message}\n{fix}" if fix else message


def _line_of(info: source.SourceInfo) -> str:
    return f"{source.display_name(info.file)}:{info.line()}"


def _function_of(info: source.SourceInfo) -> str:
    name = source.short_name(info.function)
    return "" if name == "<module>" else f", in {name}"


# Python's own classes whose text may be completed; of weft's, those that do not do it themselves.
_COMPLETED = frozenset(
    {TypeError, ValueError, NameError, IndexError, OverflowError, RuntimeError, AttributeError,
     NotImplementedError}
)  # fmt: skip


def _completed(error: BaseException) -> bool:
    kind = type(error)
    if kind in _COMPLETED:
        return True
    return kind.__module__.startswith("weft.") and not isinstance(
        error, (JAXTypeError, JAXIndexError, CheckError)
    )


def locate(error: BaseException, info: source.SourceInfo | None = None) -> None:
    """Put the user's line behind the first line of an error that weft raised, once.

    Errors raised in the user's own code, or already located, stay as they are.
    """
    args = error.args
    if "_weft_located" in error.__dict__ or not _completed(error):
        return
    if len(args) != 1 or type(args[0]) is not str:
        return
    user, ours = _last_frames(error.__traceback__)
    if not ours:
        return
    info = info or user or source.current()
    first, newline, rest = args[0].partition("\n")
    if info.code is not None and not re.search(re.escape(_line_of(info)) + r"\b", first):
        colon = ":" if newline and first.endswith(":") else ""
        first = f"{first.removesuffix(colon)} — {_line_of(info)}{_function_of(info)}{colon}"
        error.args = (first + newline + rest,)
    error.__dict__["_weft_located"] = True


def _last_frames(tb: TracebackType | None) -> tuple[source.SourceInfo | None, bool]:
    """The innermost frame of the user in a traceback, and whether weft's code lies inside it."""
    user, ours = None, False
    while tb is not None:
        code = tb.tb_frame.f_code
        ours = source.is_hidden(code.co_filename, ours)
        if not ours and not source.is_generated(code):
            user = source.SourceInfo(code, tb.tb_lasti)
        tb = tb.tb_next
    return user, ours


def _describe(tracer: Any) -> str:
    """What a tracer stands for: its class and its abstract value."""
    aval = getattr(tracer, "aval", None)
    kind = getattr(tracer, "display", type(tracer).__name__)
    if aval is None:
        return f"{kind} {tracer!r}"
    short = getattr(aval, "str_short", None)
    return f"a traced array of type {short() if callable(short) else aval} ({kind})"


def _origin(tracer: Any) -> str:
    """Which function was traced and where the value comes from, as the tracer tells it."""
    origin = getattr(tracer, "_origin_msg", None)
    text = origin() if callable(origin) else ""
    return text.strip()


def _compose(problem: str, tracer: Any, advice: str) -> str:
    parts = [located(problem), _origin(tracer), advice.strip("\n")]
    return "\n".join(part for part in parts if part)


class JAXTypeError(TypeError):
    """Wrong kind of value for what a transformation can do; base of most errors here.

    >>> import weft.errors
    >>> issubclass(weft.errors.ConcretizationTypeError, weft.errors.JAXTypeError)
    True
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class JAXIndexError(IndexError):
    """An index that cannot be used while tracing.

    >>> import weft.errors
    >>> issubclass(weft.errors.JAXIndexError, IndexError)
    True
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class ConcretizationTypeError(JAXTypeError):
    """A value was needed in Python where only its shape and dtype are known.

    Arguments that must be known while tracing are named static:

    `jit(f, static_argnames="n")`

    >>> import weft, weft.errors, weft.numpy as jnp
    >>> try:
    ...     weft.jit(lambda n: jnp.zeros(int(n)))(3)
    ... except weft.errors.ConcretizationTypeError:
    ...     print("n must be static")
    n must be static
    """

    _ADVICE = """\
While a function is traced its arguments have a shape and a dtype but no value. Either keep the
computation on arrays (lax.cond, lax.fori_loop, jnp.where), or pass the value as static:
    f = jit(f, static_argnames="n")      # n is then an ordinary Python value
    y = f(x, n=3)"""

    def __init__(self, tracer: Any, context: str = "") -> None:
        problem = f"A concrete value is needed, but this is {_describe(tracer)}"
        if context:
            problem = f"{context.strip().rstrip('.')}: {problem[0].lower()}{problem[1:]}"
        super().__init__(_compose(problem, tracer, self._ADVICE))


class NonConcreteBooleanIndexError(JAXIndexError):
    """Indexing by a traced mask: the size of the result would depend on values.

    >>> import weft, weft.errors, weft.numpy as jnp
    >>> try:
    ...     weft.jit(lambda x: x[x > 0])(jnp.ones(3))
    ... except weft.errors.NonConcreteBooleanIndexError:
    ...     print("use jnp.where")
    use jnp.where
    """

    _ADVICE = """\
The result's size would depend on the mask's values. Keep the shape and choose elementwise:
    y = jnp.where(mask, x, 0)                         # instead of x[mask]
    x = x.at[...].set(jnp.where(mask, new, x))        # instead of x[mask] = new
or say how many elements there are at most: jnp.nonzero(mask, size=n, fill_value=0)."""

    def __init__(self, tracer: Any) -> None:
        problem = f"A boolean index must be concrete, but this is {_describe(tracer)}"
        super().__init__(_compose(problem, tracer, self._ADVICE))


class TracerArrayConversionError(JAXTypeError):
    """A traced array was handed to NumPy, which needs its values.

    >>> import numpy as np, weft, weft.errors, weft.numpy as jnp
    >>> try:
    ...     weft.jit(lambda x: np.sin(np.asarray(x)))(jnp.ones(3))
    ... except weft.errors.TracerArrayConversionError:
    ...     print("use jnp.sin")
    use jnp.sin
    """

    _ADVICE = """\
NumPy computes with values, and a traced array has none yet. Use the traced counterpart:
    y = jnp.sin(x)                       # instead of np.sin(x)
    y = jnp.asarray(table)[i]            # instead of table[i] with a NumPy table
To call NumPy code on the values at run time, use pure_callback."""

    def __init__(self, tracer: Any) -> None:
        problem = f"NumPy asked for the values of {_describe(tracer)}"
        super().__init__(_compose(problem, tracer, self._ADVICE))


class TracerIntegerConversionError(JAXTypeError):
    """A traced array was used as a Python integer: an index of a list, a size, a range.

    >>> import weft, weft.errors
    >>> try:
    ...     weft.jit(lambda i: [1, 2, 3][i])(0)
    ... except weft.errors.TracerIntegerConversionError:
    ...     print("index an array instead")
    index an array instead
    """

    _ADVICE = """\
Lists, `range` and sizes need a Python integer, and a traced array has no value yet. Write
    y = jnp.asarray(items)[i]            # instead of items[i] with a list or a NumPy array
    f = jit(f, static_argnames="i")      # or make i an ordinary integer
and lax.fori_loop instead of a loop over range(i)."""

    def __init__(self, tracer: Any) -> None:
        problem = f"A Python integer is needed, but this is {_describe(tracer)}"
        super().__init__(_compose(problem, tracer, self._ADVICE))


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced array decided an `if`, a `while`, `and`, `or`, `not` or `assert`.

    >>> import weft, weft.errors
    >>> try:
    ...     weft.jit(lambda x: 1 if x > 0 else 2)(3.0)
    ... except weft.errors.TracerBoolConversionError:
    ...     print("use jnp.where or lax.cond")
    use jnp.where or lax.cond
    """

    _ADVICE = """\
Python decides `if`, `while`, `and`, `or` at once, and a traced array has no value yet. Write
    y = jnp.where(x > 0, x, -x)                                  # both sides are cheap
    y = lax.cond(x > 0, lambda x: x, lambda x: -x, x)            # only one side runs
with & | ~ for `and`, `or`, `not`, and lax.while_loop for `while`; or pass what decides as a
static argument: jit(f, static_argnames="flag")."""

    def __init__(self, tracer: Any) -> None:
        problem = f"Python asked for the truth value of {_describe(tracer)}"
        JAXTypeError.__init__(self, _compose(problem, tracer, self._ADVICE))


class UnexpectedTracerError(JAXTypeError):
    """A traced value was used after its trace had ended: it escaped through a side effect.

    >>> import weft, weft.errors, weft.numpy as jnp
    >>> kept = []
    >>> weft.jit(lambda x: kept.append(x))(1.0)
    >>> try:
    ...     jnp.sin(kept[0])
    ... except weft.errors.UnexpectedTracerError:
    ...     print("return the value instead")
    return the value instead
    """

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


_LEAK_ADVICE = """\
Traced values live only while their function is traced. Return them instead of storing
them in a global, an attribute or a list:
    def f(x):
        return y, extra                  # instead of saved.append(extra); return y"""


def leaked_tracer(tracer: Any) -> UnexpectedTracerError:
    """The error for a tracer that is used outside the function whose trace made it."""
    lines = [located(f"A traced value escaped from its function: {_describe(tracer)}")]
    lines.append(_origin(tracer))
    lines.append(f"{_LEAK_ADVICE}\n`with checking_leaks():` shows a leak where it happens.")
    return UnexpectedTracerError("\n".join(line for line in lines if line))


def still_alive(tracers: Sequence[Any]) -> Exception:
    """The error for tracers that are still alive after their function has returned."""
    lines = [located(f"A function let {len(tracers)} traced value(s) escape")]
    for tracer in tracers[:5]:
        lines.append(f"* {_describe(tracer)}")
        lines += [f"  {line}" for line in _origin(tracer).splitlines()]
    return Exception("\n".join([*lines, _LEAK_ADVICE]))


class KeyReuseError(JAXTypeError):
    """A random key was used twice, so that two draws would be the same.

    >>> import weft.errors
    >>> issubclass(weft.errors.KeyReuseError, weft.errors.JAXTypeError)
    True
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)


class AxisError(ValueError, IndexError):
    """An axis that an array does not have; of both classes, as NumPy's, since JAX raises either."""


class JaxRuntimeError(RuntimeError):
    """A compiled program failed while running.

    >>> import weft.errors
    >>> issubclass(weft.errors.JaxRuntimeError, RuntimeError)
    True
    """


class RecompileError(RuntimeError):
    """A call that would trace or compile something in a scope of ``weft.no_recompiles``.

    Example:
        >>> import weft
        >>> with weft.no_recompiles():
        ...     weft.jit(lambda x: x + 1)(1.0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weft.errors.RecompileError: <lambda>... would be traced...
    """


class TransferError(JaxRuntimeError):
    """A copy between the host and a device in a scope of ``weft.no_transfers``.

    Example:
        >>> import numpy as np, weft
        >>> with weft.no_transfers():
        ...     weft.numpy.sin(np.ones(3))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weft.errors.TransferError: float64[3] (24 bytes) would be copied...
    """


class VerificationError(AssertionError):
    """A function that failed ``weft.verify``; the text is the report.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> weft.verify(lambda x: jnp.log(1 + x))(1e-6).check()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weft.errors.VerificationError: <lambda>: FAILED...
    """


class CheckError(Exception):
    """A compiled program failed a check of ``weft.checks``.

    Each is also of the class that Python has for it: ``FloatingPointError``, ``IndexError``,
    ``ZeroDivisionError`` or ``OverflowError``.

    Example:
        >>> import weft, weft.numpy as jnp
        >>> with weft.checks(nan=True):
        ...     weft.jit(jnp.log)(-1.0)  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        weft.errors.NaNCheckError: log made nan: log(-1)...
    """


class NaNCheckError(CheckError, FloatingPointError):
    """An operation made a NaN or an infinity.

    >>> import weft.errors
    >>> issubclass(weft.errors.NaNCheckError, FloatingPointError)
    True
    """


class IndexCheckError(CheckError, IndexError):
    """An index is out of bounds.

    >>> import weft.errors
    >>> issubclass(weft.errors.IndexCheckError, IndexError)
    True
    """


class DivisionCheckError(CheckError, ZeroDivisionError):
    """A number was divided by zero.

    >>> import weft.errors
    >>> issubclass(weft.errors.DivisionCheckError, ZeroDivisionError)
    True
    """


class OverflowCheckError(CheckError, OverflowError):
    """An integer wrapped.

    >>> import weft.errors
    >>> issubclass(weft.errors.OverflowCheckError, OverflowError)
    True
    """


class HostFallbackWarning(UserWarning):
    """An operation that has no form for a device and is computed on the host."""


class JaxprTypeError(TypeError):
    """A Jaxpr does not obey its typing rules.

    >>> import weft.errors
    >>> issubclass(weft.errors.JaxprTypeError, TypeError)
    True
    """


class InconclusiveDimensionOperation(Exception):
    """A comparison of symbolic sizes that has no single answer.

    >>> import weft.errors
    >>> from weft import export
    >>> (b,) = export.symbolic_shape("b")
    >>> try:
    ...     b > 5
    ... except weft.errors.InconclusiveDimensionOperation:
    ...     print("add a constraint")
    add a constraint
    """


for _name, _class in list(globals().items()):
    # Users see where they import it from, in tracebacks too.
    if isinstance(_class, type) and issubclass(_class, Exception):
        _class.__module__ = "weft.errors"
del _name, _class


def unknown_sizes(name: str) -> InconclusiveDimensionOperation:
    """The error for symbolic sizes where something is to be computed."""
    return InconclusiveDimensionOperation(
        located(
            f"{name} has symbolic sizes, and nothing is computed without knowing them",
            "Export the function, export.export(jit(f))(ShapeDtypeStruct(shape, dtype)), and call"
            " the result with arrays; symbolic dimensions are values inside of it only.",
        )
    )


def reference_given(primitive: Any, aval: Any) -> TypeError:
    """The error for a mutable reference where an array is wanted."""
    return TypeError(
        located(
            f"{primitive} takes arrays, got a mutable reference of type {aval.str_short()}",
            "Read it first: ref[...].",
        )
    )
