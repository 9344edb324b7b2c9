"""What is derived from programs and kept with them: typed caches, and marks that copies keep.

A value lives as long as its program. A copy of a program is another program: it starts without
cached values, and has the marks of its original.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from weft.base.functional import ById

Key = TypeVar("Key")
Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")
_MISSING: Any = object()


class ProgramCache(Generic[Key, Value]):
    """Values that one module derives from programs, each by its program and a key.

    The module that makes a cache owns it: no other has its entries. Objects in a key that have no
    equality of their own stand there as ``ById``.

    Args:
        name: what the values are, for whoever prints them.

    Example:
        >>> import weft
        >>> lengths: ProgramCache[str, int] = ProgramCache("lengths")
        >>> program = weft.make_jaxpr(lambda x: x + 1.0)(1.0)
        >>> lengths.made(program, "equations", lambda: len(program.eqns))
        1
        >>> lengths.get(program, "equations"), lengths.get(program.replace(), "equations")
        (1, None)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"ProgramCache({self.name!r})"

    def get(self, program: Any, key: Key) -> Value | None:
        """The value of a program under a key, or None."""
        return program._values_by_cache.get((self, key))

    def set(self, program: Any, key: Key, value: Value) -> Value:
        """Keep a value, and give it back."""
        program._values_by_cache[self, key] = value
        return value

    def pop(self, program: Any, key: Key) -> Value | None:
        """The value of a program under a key, which is forgotten; or None."""
        return program._values_by_cache.pop((self, key), None)

    def made(self, program: Any, key: Key, make: Callable[[], Value]) -> Value:
        """The value of a program under a key, made if it is not there."""
        found = program._values_by_cache.get((self, key), _MISSING)
        if found is _MISSING:
            found = program._values_by_cache[self, key] = make()
        return found

    def values(self, program: Any) -> list[Value]:
        """All values of a program."""
        return [
            value for (cache, _), value in list(program._values_by_cache.items()) if cache is self
        ]


class SeparateCache(Generic[Key, Value]):
    """The same, with the values in the cache and not with their programs, which it keeps alive."""

    def __init__(self) -> None:
        self._values: dict[tuple[ById, Key], Value] = {}

    def get(self, program: Any, key: Key) -> Value | None:
        return self._values.get((ById(program), key))

    def set(self, program: Any, key: Key, value: Value) -> Value:
        self._values[ById(program), key] = value
        return value

    def values(self, program: Any) -> list[Value]:
        return [value for (of, _), value in self._values.items() if of.value is program]


def per_program(function: Callable[Arguments, Value]) -> Callable[Arguments, Value]:
    """A function of a program that is called once for each, and for each of its other arguments.

    These are its key, so they must be hashable. Nothing is kept of a call that fails.

    Args:
        function: the function; its first argument is the program.

    Returns:
        The function with a cache of its own.

    Example:
        >>> import weft
        >>> program = weft.make_jaxpr(lambda x: x + 1.0)(1.0)
        >>> copy = per_program(lambda closed, number: closed.replace())
        >>> copy(program, 0) is copy(program, 0), copy(program, 0) is copy(program, 1)
        (True, False)
    """
    cache: ProgramCache[Any, Value] = ProgramCache(getattr(function, "__name__", "values"))

    @wraps(function)
    def known(program: Any, *key: Any) -> Value:
        place = (cache, key)
        found = program._values_by_cache.get(place, _MISSING)
        if found is _MISSING:
            found = program._values_by_cache[place] = function(program, *key)  # type: ignore[call-arg]
        return found

    return known  # type: ignore[return-value]


class Mark:
    """A property that a closed program is given and that its copies have too.

    Args:
        name: what a program with the mark is.

    Example:
        >>> import weft
        >>> short = Mark("short")
        >>> program = short.give(weft.make_jaxpr(lambda x: x + 1.0)(1.0))
        >>> short.on(program), short.on(program.replace())
        (True, True)
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"Mark({self.name!r})"

    def give(self, program: Any) -> Any:
        """The program, which has the mark from now on."""
        program.marks |= {self}
        return program

    def on(self, program: Any) -> bool:
        """Whether a program has the mark."""
        return self in program.marks
