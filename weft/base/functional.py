"""Small helpers over lists, and the caches that `clear_caches` empties."""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, overload

from weft.base.forks import across_forks

T = TypeVar("T")
U = TypeVar("U")
F = TypeVar("F", bound=Callable[..., Any])


def _lengths_differ(what: str, args: Sequence[Sequence[Any]]) -> ValueError:
    lengths = ", ".join(str(len(a)) for a in args)
    return ValueError(f"{what} needs sequences of one length, got lengths {lengths}")


def name_of(fun: Any) -> str:
    """The name of a function, or of that which a ``functools.partial`` is of.

    >>> name_of(functools.partial(functools.partial(len)))
    'len'
    """
    while isinstance(fun, functools.partial):
        fun = fun.func
    name = getattr(fun, "__name__", None)
    return name if isinstance(name, str) else "<unnamed function>"


_NAMES = ("__name__", "__qualname__")
_OTHERS = tuple(name for name in functools.WRAPPER_ASSIGNMENTS if name not in _NAMES)


def take_names(wrapper: Any, fun: Any, updated: Sequence[str] = ("__dict__",)) -> None:
    """``functools.update_wrapper`` of a callable whose names may be missing or no strings."""
    getattr(wrapper, "__dict__", {}).pop("__signature__", None)  # it has that of ``fun`` now
    named = [isinstance(getattr(fun, name, None), str) for name in _NAMES]
    if all(named):
        functools.update_wrapper(wrapper, fun, updated=updated)
    else:
        functools.update_wrapper(wrapper, fun, _OTHERS, updated)
        wrapper.__name__ = wrapper.__qualname__ = name_of(fun)


def wraps(fun: Any, what: str = "", updated: Sequence[str] = ("__dict__",)) -> Callable[[F], F]:
    """Return a decorator like ``functools.wraps``, which also names functions without a name.

    Args:
        fun: the function to imitate.
        what: what to put in front of its docstring.
        updated: the attributes to update.

    Returns:
        A decorator.

    Example:
        >>> @wraps(len)
        ... def size(x):
        ...     return len(x)
        >>> size.__name__
        'len'
    """

    def decorate(wrapper: F) -> F:
        take_names(wrapper, fun, updated)
        if what:
            own = getattr(fun, "__doc__", None)
            first = f"{what} {wrapper.__name__}."
            wrapper.__doc__ = f"{first}\n\n{own}" if own else first
        return wrapper

    return decorate


def safe_map(f: Callable[..., T], *args: Iterable[Any]) -> list[T]:
    """Return `list(map(f, *args))`; sequences of different length are an error.

    Args:
        f: the function.
        *args: the sequences.

    Returns:
        A list.

    Example:
        >>> safe_map(max, [1, 5], [4, 2])
        [4, 5]
    """
    if len(args) == 1:
        return list(map(f, args[0]))
    lists = [a if isinstance(a, (list, tuple)) else list(a) for a in args]
    n = len(lists[0])
    for a in lists:
        if len(a) != n:
            raise _lengths_differ("map", lists)
    return list(map(f, *lists))


def safe_zip(*args: Iterable[Any]) -> list[tuple[Any, ...]]:
    """`list(zip(*args))`, but sequences of different length are an error.

    >>> safe_zip([1, 2], "ab")
    [(1, 'a'), (2, 'b')]
    """
    lists = [a if isinstance(a, (list, tuple)) else list(a) for a in args]
    if lists:
        n = len(lists[0])
        for a in lists:
            if len(a) != n:
                raise _lengths_differ("zip", lists)
    return list(zip(*lists, strict=True))


def unzip2(pairs: Iterable[tuple[T, U]]) -> tuple[list[T], list[U]]:
    """The firsts and the seconds of pairs; two empty lists for no pairs."""
    xs: list[T] = []
    ys: list[U] = []
    for x, y in pairs:
        xs.append(x)
        ys.append(y)
    return xs, ys


def split_list(xs: Sequence[T], sizes: Sequence[int]) -> list[list[T]]:
    """Cut `xs` into pieces of the given sizes and a last piece with what is left.

    >>> split_list([1, 2, 3, 4], [1, 2])
    [[1], [2, 3], [4]]
    """
    out: list[list[T]] = []
    start = 0
    for n in sizes:
        if n < 0 or start + n > len(xs):
            raise ValueError(f"cannot cut pieces of sizes {list(sizes)} from {len(xs)} elements")
        out.append(list(xs[start : start + n]))
        start += n
    out.append(list(xs[start:]))
    return out


def partition_list(bs: Sequence[bool], xs: Sequence[T]) -> tuple[list[T], list[T]]:
    """Those of `xs` whose flag is false, and those whose flag is true.

    >>> partition_list([True, False, True], "abc")
    (['b'], ['a', 'c'])
    """
    if len(bs) != len(xs):
        raise _lengths_differ("partition_list", (bs, xs))
    off: list[T] = []
    on: list[T] = []
    for b, x in zip(bs, xs, strict=True):
        (on if b else off).append(x)
    return off, on


def either(a: Sequence[bool], b: Sequence[bool]) -> list[bool]:
    """Flags that are true where one of two is.

    >>> either([True, False], [False, False])
    [True, False]
    """
    return [x or y for x, y in zip(a, b, strict=True)]


def merge_lists(bs: Sequence[bool], xs: Iterable[Any], ys: Iterable[Any]) -> list[Any]:
    """The reverse of `partition_list`: from `xs` where false, from `ys` where true.

    >>> merge_lists([True, False, True], ["b"], ["a", "c"])
    ['a', 'b', 'c']
    """
    xs, ys = list(xs), list(ys)
    n_true = sum(map(bool, bs))
    if len(xs) != len(bs) - n_true or len(ys) != n_true:
        raise ValueError(
            f"merge_lists got {len(xs)} and {len(ys)} elements for "
            f"{len(bs) - n_true} false and {n_true} true flags"
        )
    it_x, it_y = iter(xs), iter(ys)
    return [next(it_y) if b else next(it_x) for b in bs]


def concatenate(xss: Iterable[Iterable[T]]) -> list[T]:
    """One list from many."""
    return list(itertools.chain.from_iterable(xss))


class ById:
    """A hashable stand-in for any object, equal only to a stand-in for that very object."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __hash__(self) -> int:
        return hash(id(self.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ById) and self.value is other.value


def is_hashable(x: object) -> bool:
    """Whether `hash(x)` works."""
    try:
        hash(x)
    except TypeError:
        return False
    return True


class kept_property(Generic[T]):
    """A property that is computed once and kept in the object's dictionary, without a lock.

    Up to Python 3.11 that of ``functools`` has one lock for all objects: a child forked while
    another thread computes one waits for ever. Threads that meet here compute it twice, and all of
    them get the value that was kept first.

    >>> class Circle:
    ...     radius = 2
    ...     @kept_property
    ...     def area(self):
    ...         return 3 * self.radius**2
    >>> circle = Circle()
    >>> circle.area, circle.__dict__
    (12, {'area': 12})
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, obj: None, owner: Any = None) -> kept_property[T]: ...

    @overload
    def __get__(self, obj: object, owner: Any = None) -> T: ...

    def __get__(self, obj: Any, owner: Any = None) -> Any:
        if obj is None:
            return self
        return obj.__dict__.setdefault(self.name, self.compute(obj))


class WeakMembers:
    """Objects as long as they live. One thread may add some while another goes through them.

    That is an error for ``weakref.WeakSet`` up to Python 3.13.
    """

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[Any]] = {}

    def add(self, x: Any) -> None:
        """Add an object, which is held weakly and told apart by identity."""
        # Called with the dead reference, which pop takes for a default.
        drop = functools.partial(self._refs.pop, id(x))
        self._refs[id(x)] = weakref.ref(x, drop)

    def __iter__(self) -> Iterator[Any]:
        for ref in self._refs.copy().values():
            x = ref()
            if x is not None:
                yield x

    def __len__(self) -> int:
        return len(self._refs)


# ---------------------------------------------------------------------------- caches

_caches: list[weakref.ref[Any]] = []
_caches_lock = across_forks(threading.RLock())


def register_cache(cache: Any) -> None:
    """Have `cache.cache_clear()` called by `clear_all_caches`; the cache is held weakly."""
    with _caches_lock:
        _caches.append(weakref.ref(cache))


def clear_all_caches() -> None:
    """Empty all caches of traced and compiled functions; they are compiled again when next called.

    Example:
        >>> import weft
        >>> weft.clear_caches()
    """
    with _caches_lock:
        alive = [(r, cache) for r in _caches if (cache := r()) is not None]
        _caches[:] = [r for r, _ in alive]
    for _, cache in alive:
        cache.cache_clear()


def lru(maxsize: int | None = 4096) -> Callable[[F], F]:
    """Cache a function of hashable arguments, keeping the `maxsize` results used last.

    Arguments that compare equal but differ in type (1, 1.0, True) are kept apart.

    >>> @lru()
    ... def square(x):
    ...     return x * x
    >>> square(3), square(3.0)
    (9, 9.0)
    """

    def decorate(f: F) -> F:
        cached: Any = functools.lru_cache(maxsize=maxsize, typed=True)(f)
        register_cache(cached)
        return cached

    return decorate


class WeakLru:
    """A cache whose entries die with their first argument, which is held weakly.

    The first argument is told apart by identity, so it need not be hashable. `size_of` gives
    the bytes of a result; without it every result counts as one.
    """

    _lock = across_forks(threading.RLock())  # of all of them: it is held for moments only

    def __init__(
        self,
        f: Callable[..., Any],
        max_total: int,
        size_of: Callable[[Any], int] | None = None,
        context: Callable[[], Hashable] | None = None,
        keep: Callable[[Any], bool] | None = None,
    ):
        functools.update_wrapper(self, f)
        self._f = f
        self._max_total = max_total
        self._size_of = size_of
        self._context = context
        self._keep = keep
        self.cache_clear()
        register_cache(self)

    def cache_clear(self) -> None:
        """Forget every result."""
        with self._lock:
            self._refs: dict[int, weakref.ref[Any]] = {}
            self._keys: dict[int, set[tuple[Any, ...]]] = {}
            self._entries: OrderedDict[tuple[Any, ...], tuple[Any, int]] = OrderedDict()
            self._total = 0
            self.hits = self.misses = 0

    def cache_len(self) -> int:
        """How many results are held."""
        return len(self._entries)

    def __call__(self, first: Any, *args: Any, **kwargs: Any) -> Any:
        context = None if self._context is None else self._context()
        types = tuple(map(type, args))
        key = (id(first), context, args, types, tuple(kwargs.items()) if kwargs else None)
        entry = self._entries.get(key)
        if entry is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:
                pass  # another thread evicted it; the result itself is still good
            self.hits += 1
            return entry[0]
        self.misses += 1
        result = self._f(first, *args, **kwargs)
        if self._keep is None or self._keep(result):
            self._insert(first, key, result)
        return result

    def _insert(self, first: Any, key: tuple[Any, ...], result: Any) -> None:
        size = 1 if self._size_of is None else self._size_of(result)
        ident = id(first)
        with self._lock:
            if ident not in self._refs:
                self._refs[ident] = weakref.ref(first, lambda ref: self._drop(ident, ref))
                self._keys[ident] = set()
            if key in self._entries:
                self._total -= self._entries[key][1]
            self._keys[ident].add(key)
            self._entries[key] = (result, size)
            self._total += size
            while self._total > self._max_total and len(self._entries) > 1:
                old, (_, old_size) = self._entries.popitem(last=False)
                self._total -= old_size
                keys = self._keys.get(old[0])
                if keys is not None:
                    keys.discard(old)

    def _drop(self, ident: int, ref: weakref.ref[Any]) -> None:
        with self._lock:
            if self._refs.get(ident) is not ref:
                return  # the cache was cleared since, or the id belongs to a new object
            del self._refs[ident]
            for key in self._keys.pop(ident):
                entry = self._entries.pop(key, None)
                if entry is not None:
                    self._total -= entry[1]


def weakref_lru_cache(
    f: Callable[..., Any] | None = None,
    *,
    maxsize: int = 4096,
    max_bytes: int | None = None,
    size_of: Callable[[Any], int] | None = None,
    context: Callable[[], Hashable] | None = None,
    keep: Callable[[Any], bool] | None = None,
) -> Any:
    """Cache a function whose first argument is held weakly and the others must be hashable.

    `context` is called at each call and its value belongs to the key. With `max_bytes` and
    `size_of` the bound is in bytes. Results for which `keep` is false are not kept.

    >>> class Model:
    ...     layers = 3
    >>> @weakref_lru_cache
    ... def depth(model, scale):
    ...     return model.layers * scale
    >>> depth(Model(), 2)
    6
    """
    bound = maxsize if max_bytes is None else max_bytes
    if f is None:
        return lambda g: WeakLru(g, bound, size_of, context, keep)
    return WeakLru(f, bound, size_of, context, keep)
