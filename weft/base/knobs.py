"""Every knob of weft, declared once: its name, environment variables, values, default and use.

A knob has a global value, set by `config.update` or the environment, and may be overridden for a
scope of one thread by `with knob(value):`. Hot code reads `thread.<name>`; the values of knobs
that shape what a trace gives are summed up in one interned object, `context_key()`.
"""

from __future__ import annotations

import functools
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from weft.base import absl_flags
from weft.base.forks import across_forks

_TRUE = ("1", "true", "t", "yes", "y", "on")
_FALSE = ("0", "false", "f", "no", "n", "off", "")


class ContextKey:
    """One set of values of the knobs in the key. Equal sets are the same object.

    A thread whose calls are observed has a key of its own, which no native code knows, so that its
    calls come by Python; ``plain`` is the one that all others have, and what caches go by.
    """

    __slots__ = ("values", "plain", "__weakref__")

    def __init__(self, values: tuple[Any, ...], plain: ContextKey | None = None):
        self.values = values
        self.plain = plain

    def __repr__(self) -> str:
        given = ", ".join(
            f"{k.name}={v!r}" for k, v in zip(_in_key, self.values, strict=False) if v != k.default
        )
        return f"ContextKey({given})"


# A plain dictionary: hundreds of variables are asked for, which os.environ encodes one by one.
_environment = dict(os.environ)
_registry: dict[str, Knob] = {}
_in_key: list[Knob] = []
_globals: dict[str, Any] = {}
_lock = across_forks(threading.RLock())
_keys: weakref.WeakValueDictionary[tuple[Any, ...], ContextKey] = weakref.WeakValueDictionary()
_threads: weakref.WeakSet[_Overrides] = weakref.WeakSet()


# Keys made last stay alive, so that entering and leaving a scope in a loop makes none anew.
_recent_keys: deque[ContextKey] = deque(maxlen=64)


def in_key_values() -> dict[str, Any]:
    """What this thread has set all knobs to that programs depend on."""
    return {knob.name: getattr(thread, knob.name) for knob in _in_key}


def _intern(values: dict[str, Any]) -> ContextKey:
    picked = tuple([values[knob.name] for knob in _in_key])
    with _lock:
        key = _keys.get(picked)
        if key is None:
            key = _keys[picked] = ContextKey(picked)
            _recent_keys.append(key)
    if values["observed"] or values["log_transfers"] or values["verify_rate"]:
        return ContextKey(picked, key)
    return key


class _Overrides:
    """How often each knob is overridden in one thread, with that thread's values."""

    __slots__ = ("depth", "saved", "values", "__weakref__")

    def __init__(self, values: dict[str, Any]):
        self.depth: dict[str, int] = {}
        self.saved: dict[int, list[list[Any]]] = {}
        self.values = values


class _Thread(threading.local):
    """The values that hold in the current thread, one plain attribute a knob."""

    context_key: ContextKey
    overrides: _Overrides

    def __init__(self) -> None:
        # Runs once in every thread that looks, before the look.
        values = self.__dict__
        with _lock:
            values.update(_globals, observed=0)
            values["context_key"] = _intern(values)
            self.overrides = _Overrides(values)
            _threads.add(self.overrides)

    if TYPE_CHECKING:  # a real __getattr__ would make every read three times slower

        def __getattr__(self, name: str) -> Any: ...


def context_key() -> ContextKey:
    """The interned values of this thread's knobs that belong to cache keys."""
    key = thread.context_key
    return key.plain or key


def differences(before: ContextKey, now: ContextKey) -> list[tuple[str, Any, Any]]:
    """The names of knobs whose values differ, with both."""
    found = zip(_in_key, before.values, now.values, strict=False)
    return [(knob.name, old, new) for knob, old, new in found if old != new]


class observed_calls:
    """A scope in which this thread's calls come by Python; what is cached stays valid."""

    def __enter__(self) -> None:
        self._change(1)

    def __exit__(self, *_: Any) -> None:
        self._change(-1)

    def _change(self, by: int) -> None:
        values = thread.overrides.values
        with _lock:
            values["observed"] += by
            values["context_key"] = _intern(values)


class native_calls:
    """A scope within the other one for a call that has been observed: native code may answer it."""

    __slots__ = ("_before", "_plain")

    def __enter__(self) -> None:
        self._before = thread.context_key
        self._plain = thread.context_key = context_key()

    def __exit__(self, *_: Any) -> None:
        if thread.context_key is self._plain:  # else knobs were set meanwhile
            thread.context_key = self._before


class _KnobDoc:
    """The docstring of a knob: that of the class, or of an instance what it sets."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __get__(self, knob: Knob | None, kind: type) -> str:
        if knob is None:
            return self.text
        value = True if knob.kind is bool else knob.choices[0] if knob.choices else knob.default
        shown = f"{value!r}\n" if value is not None else ""
        return f"""{knob.doc}

    Args:
        new_val: The value inside of the scope: {knob.allowed()}.

    Returns:
        Context manager or decorator that sets the value for its scope. Outside of scopes read it
        as ``.value``, and set it for the whole process with ``weft.config.update``.

    Example:
        >>> import weft
        >>> with weft.{knob.name}({value!r}):
        ...     weft.{knob.name}.value
        {shown}
    """


class Knob:
    __doc__ = _KnobDoc(  # type: ignore[assignment]
        """A setting: read `.value`, set for a scope by calling it, globally by `config.update`.

    >>> with numpy_rank_promotion("raise"):
    ...     numpy_rank_promotion.value
    'raise'
    """
    )

    __slots__ = ("name", "kind", "choices", "default", "doc", "in_key", "in_context", "optional",
                 "covers", "accepts", "effect", "env", "on_update", "aliases")  # fmt: skip

    def __init__(
        self,
        name: str,
        kind: type,
        default: Any,
        doc: str,
        *,
        choices: tuple[str, ...] | range | None = None,
        in_key: bool = False,
        observes: bool = False,
        covers: tuple[Knob, ...] = (),
        accepts: tuple[Callable[[Any], bool], str] | None = None,
        effect: bool = True,
        env: tuple[str, ...] | None = None,
        aliases: dict[str, str] | None = None,
    ):
        if name in _registry:
            raise ValueError(f"a knob called {name!r} exists already")
        self.name = name
        self.kind = kind
        self.choices = choices
        self.default = default
        self.doc = doc if effect else f"Accepted for JAX, no effect. {doc}"
        self.in_key = in_key
        self.in_context = in_key or observes  # whether calls must be looked at again
        self.optional = default is None
        self.covers = covers
        self.accepts = accepts
        self.effect = effect
        self.aliases = aliases or {}  # older words for values
        self.env = (f"WEFT_{name.upper()}", f"JAX_{name.upper()}") if env is None else env
        self.on_update: list[Callable[[Any], None]] = []
        with _lock:
            _registry[name] = self
            if in_key:
                _in_key.append(self)
            _globals[name] = self._from_environment()
            # none while the knobs below are declared; walking an empty weak set costs as much again
            for other in _threads if len(_threads) else ():
                other.values[name] = _globals[name]
                if in_key:
                    other.values["context_key"] = _intern(other.values)

    @property
    def value(self) -> Any:
        """The value that holds in this thread."""
        return getattr(thread, self.name)

    def allowed(self) -> str:
        """The values it takes, as text."""
        if self.choices is not None:
            text = ", ".join(repr(c) for c in self.choices)
        elif self.accepts is not None:
            text = self.accepts[1]
        else:
            text = {bool: "True, False", int: "an integer", float: "a number",
                    str: "a string"}.get(self.kind, self.kind.__name__)  # fmt: skip
        return f"{text}, None" if self.optional else text

    def check(self, value: Any) -> Any:
        """`value` as this knob keeps it, or an error that names what is allowed."""
        if value is None and self.optional:
            return None
        if self.kind is bool:
            return self._check_bool(value)
        if self.kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if isinstance(value, str) and self.kind is str:
            value = str.__str__(value)  # members of str enumerations become plain strings
            value = self.aliases.get(value, value)
        wrong_kind = self.kind is not object and not isinstance(value, self.kind)
        if self.accepts is not None:
            wrong_kind = not self.accepts[0](value)
        if wrong_kind or (self.choices is not None and value not in self.choices):
            raise ValueError(
                f"{self.name} takes {self.allowed()}; got {value!r} of type {type(value).__name__}"
            )
        return value

    def _check_bool(self, value: Any) -> bool:
        if isinstance(value, str):
            word = value.lower()
            if word in _TRUE or word in _FALSE:
                return word in _TRUE
            raise ValueError(f"{self.name} takes True or False; got {value!r}")
        if value is None or isinstance(value, (bool, int)) or type(value).__name__ == "bool":
            return bool(value)
        raise TypeError(
            f"{self.name} takes True or False; got {value!r} of type {type(value).__name__}"
        )

    def parse(self, text: str) -> Any:
        """The value that a text from the environment means."""
        if self.optional and text in ("", "None", "none"):
            return None
        if self.kind in (int, float):
            try:
                return self.check(self.kind(text))
            except ValueError:
                raise ValueError(f"{self.name} takes {self.allowed()}; got {text!r}") from None
        return self.check(text)

    def _from_environment(self) -> Any:
        for variable in self.env:
            text = _environment.get(variable)
            if text is not None:
                try:
                    return self.parse(text)
                except ValueError as error:
                    raise ValueError(f"environment variable {variable}: {error}") from None
        return self.default

    def get_global(self) -> Any:
        """The value where no scope overrides it."""
        return _globals[self.name]

    def set_global(self, value: Any) -> None:
        """Set the value for every thread that does not override it."""
        value = self.check(value)
        for hook in self.on_update:
            hook(value)
        with _lock:
            _globals[self.name] = value
            for other in list(_threads):
                if not other.depth.get(self.name):
                    other.values[self.name] = value
                    if self.in_context:
                        other.values["context_key"] = _intern(other.values)
        for knob in self.covers:
            knob.set_global(value)

    _NO_VALUE = object()

    def __call__(self, new_val: Any = _NO_VALUE) -> Setting:
        """A context manager (or decorator) under which the knob has another value here."""
        if new_val is Knob._NO_VALUE:
            if self.kind is not bool:
                raise TypeError(f"{self.name}(value) needs a value: {self.allowed()}")
            new_val = True
        value = self.check(new_val)
        return Setting(((self, value), *((knob, value) for knob in self.covers)))

    def __bool__(self) -> bool:
        raise TypeError(f"a knob has no truth value; write {self.name}.value")

    def __repr__(self) -> str:
        return f"<knob {self.name}={self.value!r}>"


class Setting:
    """Knobs with other values for a scope of this thread; may be entered again and nested."""

    __slots__ = ("changes", "_in_context")

    def __init__(self, changes: tuple[tuple[Knob, Any], ...]):
        self.changes = changes
        self._in_context = any(knob.in_context for knob, _ in changes)

    def __enter__(self) -> None:
        mine = thread.overrides
        values, depth = mine.values, mine.depth
        with _lock:  # a global update from another thread writes into the same values
            old = [values[knob.name] for knob, _ in self.changes]
            mine.saved.setdefault(id(self), []).append(old)
            for knob, value in self.changes:
                depth[knob.name] = depth.get(knob.name, 0) + 1
                values[knob.name] = value
            if self._in_context:
                values["context_key"] = _intern(values)

    def __exit__(self, *_: Any) -> None:
        mine = thread.overrides
        values, depth = mine.values, mine.depth
        with _lock:
            stack = mine.saved[id(self)]
            for (knob, _value), old in zip(self.changes, stack.pop(), strict=True):
                depth[knob.name] -= 1
                # The outermost scope gives way to the global value, which may be another now.
                values[knob.name] = old if depth[knob.name] else _globals[knob.name]
            if not stack:
                del mine.saved[id(self)]
            if self._in_context:
                values["context_key"] = _intern(values)

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(fun)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with type(self)(self.changes):
                return fun(*args, **kwargs)

        return wrapped


def scope(**values: Any) -> Setting:
    """Several knobs at once for a scope.

    >>> with scope(enable_x64=True, debug_nans=True):
    ...     enable_x64.value and debug_nans.value
    True
    """
    changes = [(find(name), value) for name, value in values.items()]
    return Setting(tuple((knob, knob.check(value)) for knob, value in changes))


def find(name: str) -> Knob:
    """The knob of this name, with or without a `jax_` or `weft_` before it."""
    knob = _registry.get(name)
    if knob is None:
        for prefix in ("jax_", "weft_"):
            if name.startswith(prefix):
                knob = _registry.get(name[len(prefix) :])
    if knob is None:
        import difflib  # only for this message

        bare = name.removeprefix("jax_").removeprefix("weft_")
        close = difflib.get_close_matches(bare, _registry, n=3)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise AttributeError(f"there is no option {name!r}{hint}")
    return knob


def registry() -> Iterator[Knob]:
    """Every knob, in the order of declaration."""
    return iter(list(_registry.values()))


class UserContext:
    """A value of the user's own that belongs to every cache key: `with context(value):`."""

    __slots__ = ("_knob",)
    _count = 0

    def __init__(self, default_value: Any = None):
        UserContext._count += 1
        name = f"user_context_{UserContext._count}"
        self._knob = Knob(name, object, default_value, "", in_key=True, env=())

    @property
    def value(self) -> Any:
        """The value that holds here."""
        return self._knob.value

    def get_global(self) -> Any:
        """The value where no scope overrides it."""
        return self._knob.get_global()

    def set_global(self, value: Any) -> None:
        """Set the value for every thread that does not override it."""
        hash(value)  # it will be part of keys: fail where it is set
        self._knob.set_global(value)

    def __call__(self, value: Any) -> Setting:
        hash(value)
        return self._knob(value)


def make_user_context(default_value: Any = None) -> UserContext:
    """Return a context value of your own; functions are traced again where it differs.

    Args:
        default_value: Value outside of all scopes; it must be hashable.

    Returns:
        A ``UserContext``: call it with a value for a ``with`` block, read ``.value``.

    Example:
        >>> phase = make_user_context("train")
        >>> with phase("test"):
        ...     phase.value
        'test'
    """
    return UserContext(default_value)


class Config:
    """All knobs by name: `config.update("jax_enable_x64", True)`, `config.jax_enable_x64`."""

    __slots__ = ()

    def update(self, name: str, val: Any) -> None:
        """Set an option for the whole process."""
        find(name).set_global(val)

    def read(self, name: str) -> Any:
        """The value of an option here."""
        return find(name).value

    @property
    def values(self) -> dict[str, Any]:
        """Every option under its `jax_` name (`weft_` for our own), with its value here."""
        return {_public_name(k): k.value for k in registry() if k.doc}

    def config_with_absl(self) -> None:
        """Make every option a flag of absl; ``app.run(main)`` sets what the command line gives.

        Call it before ``app.run``: ``python train.py --jax_enable_x64``.
        """
        absl_flags.define(_flags())

    def parse_flags_with_absl(self) -> None:
        """Read the options on the command line now, for programs without ``app.run``."""
        absl_flags.parse(lambda: absl_flags.define(_flags()), _flags())

    @property
    def x64_enabled(self) -> bool:
        """Whether 64-bit types are kept."""
        return bool(thread.enable_x64)

    def __getattr__(self, name: str) -> Any:
        return find(name).value

    def __setattr__(self, name: str, value: Any) -> None:
        knob = find(name)
        if _public_name(knob).startswith("weft_"):  # JAX's options are set by update only
            knob.set_global(value)
            return
        raise AttributeError(f"write config.update({name!r}, {value!r})")

    def __dir__(self) -> list[str]:
        return sorted([*object.__dir__(self), *self.values])


def _flags() -> list[tuple[str, Knob]]:
    return [(_public_name(knob), knob) for knob in registry() if knob.doc]


def _public_name(knob: Knob) -> str:
    if knob.name in _BARE_NAMES:
        return knob.name
    ours = not any(variable.startswith("JAX_") for variable in knob.env)
    return f"{'weft' if ours else 'jax'}_{knob.name}"


# Options that JAX itself spells without `jax_`.
_BARE_NAMES = frozenset(
    ["check_vma", "eager_constant_folding", "jax2tf_associative_scan_reductions",
     "jax2tf_default_native_serialization", "mock_num_gpu_processes"]
)  # fmt: skip

config = Config()


def _flag(name: str, default: bool, doc: str, **options: Any) -> Knob:
    return Knob(name, bool, default, doc, **options)


def _choice(name: str, choices: str, default: str | None, doc: str, **options: Any) -> Knob:
    return Knob(name, str, default, doc, choices=tuple(choices.split()), **options)


def _int(name: str, default: int | None, doc: str, **options: Any) -> Knob:
    return Knob(name, int, default, doc, **options)


def _text(name: str, default: str | None, doc: str, **options: Any) -> Knob:
    return Knob(name, str, default, doc, **options)


# ------------------------------------------------------------------ what programs mean
# fmt: off

enable_x64 = _flag(
    "enable_x64", False, "Keep 64-bit integers and floats; otherwise they become 32-bit.",
    in_key=True,
)
explicit_x64_dtypes = _choice(
    "explicit_x64_dtypes", "warn error allow", "warn",
    "What happens when a 64-bit dtype is asked for while `enable_x64` is off.", in_key=True,
)
numpy_dtype_promotion = _choice(
    "numpy_dtype_promotion", "standard strict", "standard",
    "`strict` makes operations between arrays of different dtypes an error.", in_key=True,
)
numpy_rank_promotion = _choice(
    "numpy_rank_promotion", "allow warn raise", "allow",
    "Whether arrays of different rank may broadcast implicitly.", in_key=True,
)
default_matmul_precision = _choice(
    "default_matmul_precision",
    "default high highest bfloat16 tensorfloat32 float32 ANY_F8_ANY_F8_F32 "
    "ANY_F8_ANY_F8_F32_FAST_ACCUM ANY_F8_ANY_F8_ANY ANY_F8_ANY_F8_ANY_FAST_ACCUM F16_F16_F16 "
    "F16_F16_F32 BF16_BF16_BF16 BF16_BF16_F32 BF16_BF16_F32_X3 BF16_BF16_F32_X6 "
    "BF16_BF16_F32_X9 TF32_TF32_F32 TF32_TF32_F32_X3 F32_F32_F32 F64_F64_F64",
    None, "Default precision of matrix products and convolutions.", in_key=True,
)
default_device = Knob(
    "default_device", object, None,
    "Where new arrays live and functions without sharded arguments run: a device or a platform.",
    in_key=True, accepts=(
        lambda d: isinstance(d, str) or hasattr(d, "platform"), "a device, a platform's name"
    ),
)
# set by weft.sharding.set_mesh, which says what it takes
mesh = Knob("mesh", object, None, "", in_key=True, env=())
# set by ``with mesh:``; pjit and with_sharding_constraint read it
entered_mesh = Knob("entered_mesh", object, None, "", in_key=True, env=())
default_prng_impl = _choice(
    "default_prng_impl", "threefry2x32 threefry4x32 rbg unsafe_rbg philox2x32 philox4x32",
    "threefry2x32", "The default random generator.", in_key=True,
)
threefry_partitionable = _flag(
    "threefry_partitionable", True,
    "Lay random bits out so that every element depends on its own position alone.", in_key=True,
)
denormals = _choice(
    "denormals", "flush keep", "flush",
    "`flush` treats denormal numbers as zeros, as JAX does; `keep` may be slow.",
    in_key=True, env=("WEFT_DENORMALS",),
)
reproducible = _flag(
    "reproducible", False,
    "Give the same bits on every processor, at any vector width, number of threads and batch size;"
    " see [the page](debugging.md#same-bits-everywhere).", in_key=True,
)
random_seed_offset = _int(
    "random_seed_offset", 0, "Added to every seed that keys are made from.", in_key=True
)
enable_custom_prng = _flag(
    "enable_custom_prng", False, "Make `random.PRNGKey` return typed keys.", in_key=True
)
legacy_prng_key = _choice(
    "legacy_prng_key", "allow warn error", "allow",
    "What happens when a raw uint32 array is used as a random key.", in_key=True,
)
high_dynamic_range_gumbel = _flag(
    "high_dynamic_range_gumbel", False,
    "Draw Gumbel noise with more precision in its tail.", in_key=True,
)
softmax_custom_jvp = _flag(
    "softmax_custom_jvp", False, "Use a custom derivative rule for `nn.softmax`.", in_key=True
)
allow_f16_reductions = _flag(
    "allow_f16_reductions", True, "Whether `reduce_sum` takes float16 and bfloat16.", in_key=True
)
auto_pcast = _flag(
    "auto_pcast", True,
    "weft always matches how values vary over mesh axes.", effect=False,
)
remove_size_one_mesh_axis_from_type = _flag(
    "remove_size_one_mesh_axis_from_type", False,
    "Leave mesh axes of size 1 out of the types of arrays.", in_key=True,
)
check_vma = _flag(
    "check_vma", False,
    "The argument `check_vma` of `shard_map` decides.", effect=False, env=(),
)
xla_metadata = Knob(
    "xla_metadata", tuple, (), "Metadata of traced operations (set by `set_xla_metadata`).",
    in_key=True, env=(),
)
mutable_array_checks = _flag(
    "mutable_array_checks", True, "Check that references are not aliased.", in_key=True
)
disable_bwd_checks = _flag(
    "disable_bwd_checks", False, "Do not check what a custom backward rule returns.", in_key=True
)
custom_vjp3 = _flag(
    "custom_vjp3", False, "Refuse `custom_vjp` functions that close over traced arrays.",
    in_key=True,
)
use_direct_linearize = _flag(
    "use_direct_linearize", True,
    "weft always linearises by a forward derivative and partial evaluation.", effect=False,
)
disable_jit = _flag(
    "disable_jit", False, "Run functions under `jit` and loops as ordinary Python.", in_key=True
)
eager_constant_folding = _flag(
    "eager_constant_folding", False,
    "A pass of the compiler folds constants.", effect=False,
)
embedded_constants_max_bytes = _int(
    "embedded_constants_max_bytes", 32,
    "Arrays that a function closes over are never copied into its program.", effect=False,
)
captured_constants_warn_bytes = _int(
    "captured_constants_warn_bytes", 2_000_000_000,
    "Warn when a function closes over more bytes of arrays than this; -1 never warns.",
)
captured_constants_report_frames = _int(
    "captured_constants_report_frames", 0, "How many lines that warning names for each array."
)

# ------------------------------------------------------------------ finding mistakes

safe_where_gradients = _flag(
    "safe_where_gradients", True,
    "Branches that `where` did not take contribute zero to gradients. Off: 0 · inf is NaN, as in"
    " JAX.", in_key=True,
)

debug_nans = _flag("debug_nans", False, "Raise when an operation produces a NaN.", in_key=True)
debug_infs = _flag(
    "debug_infs", False, "Raise when an operation produces an infinity.", in_key=True
)
check_nan = _flag(
    "check_nan", False,
    "Raise where an operation of a compiled program makes a NaN (`weft.checks`).", in_key=True,
    env=("WEFT_CHECK_NAN",),
)
check_inf = _flag(
    "check_inf", False, "Raise where an operation of a compiled program makes an infinity.",
    in_key=True, env=("WEFT_CHECK_INF",),
)
check_index = _flag(
    "check_index", False, "Raise where an index in a compiled program is out of bounds.",
    in_key=True, env=("WEFT_CHECK_INDEX",),
)
check_division = _flag(
    "check_division", False, "Raise where a compiled program divides by zero.", in_key=True,
    env=("WEFT_CHECK_DIVISION",),
)
check_overflow = _text(
    "check_overflow", "",
    "Raise where an integer of a compiled program wraps: `signed`, or names of dtypes separated by"
    " commas.",
    in_key=True, env=("WEFT_CHECK_OVERFLOW",),
    accepts=(
        lambda x: isinstance(x, str)
        and (x in ("", "signed") or all(re.fullmatch(r"u?int\d+", name) for name in x.split(","))),
        "'', 'signed', or names of integer dtypes separated by commas",
    ),
)
debug_key_reuse = _flag(
    "debug_key_reuse", False, "Raise when a random key is used twice.", in_key=True
)
check_tracer_leaks = _flag(
    "check_tracer_leaks", False, "Raise when a traced value outlives its trace.", in_key=True
)
check_static_indices = _flag(
    "check_static_indices", False, "Check the bounds of indices known while tracing.", in_key=True
)
enable_checks = _flag(
    "enable_checks", False, "Check the types of every Jaxpr.", in_key=True
)
error_checking_behavior_nan = _choice(
    "error_checking_behavior_nan", "ignore raise", "ignore",
    "Use `debug_nans` or `checkify`.", effect=False,
)
error_checking_behavior_divide = _choice(
    "error_checking_behavior_divide", "ignore raise", "ignore",
    "Use `debug_nans` or `checkify`.", effect=False,
)
error_checking_behavior_oob = _choice(
    "error_checking_behavior_oob", "ignore raise", "ignore",
    "Use `checkify.index_checks`.", effect=False,
)
no_tracing = _flag("no_tracing", False, "Raise if a function would be traced again.")
no_execution = _flag("no_execution", False, "Raise if anything would be computed.", in_key=True)
thread_guard = _flag(
    "thread_guard", False,
    "Messages between processes may come from any thread.", effect=False,
)
array_garbage_collection_guard = _choice(
    "array_garbage_collection_guard", "allow log fatal", None,
    "weft keeps arrays out of reference cycles.", effect=False,
)
_LEVELS = "allow log disallow log_explicit disallow_explicit"
transfer_guard_host_to_device = _choice(
    "transfer_guard_host_to_device", _LEVELS, None, "Watch copies from the host to a device.",
    in_key=True,
)
transfer_guard_device_to_device = _choice(
    "transfer_guard_device_to_device", _LEVELS, None, "Watch copies between devices.", in_key=True,
)
transfer_guard_device_to_host = _choice(
    "transfer_guard_device_to_host", _LEVELS, None, "Watch copies from a device to the host."
)
transfer_guard = _choice(
    "transfer_guard", _LEVELS, None, "Watch copies in all three directions.",
    covers=(transfer_guard_host_to_device, transfer_guard_device_to_device,
            transfer_guard_device_to_host),
)
log_compiles = _flag("log_compiles", False, "Log every function that is traced and compiled.")
explain_cache_misses = _flag(
    "explain_cache_misses", False, "Log why a compiled function had to be traced again."
)
log_recompiles = _flag(
    "log_recompiles", False,
    "Log each call that traces or compiles again, and what changed since the nearest earlier call.",
    env=("WEFT_LOG_RECOMPILES",),
)
verify_rate = Knob(
    "verify_rate", float, 0.0,
    "Share of the calls of compiled functions that are verified in the background, from 0 to 1.",
    accepts=(
        lambda x: isinstance(x, float) and 0 <= x <= 1,
        "a number from 0 to 1",
    ),
    env=("WEFT_VERIFY_RATE",), observes=True,
)
verify_error = _flag(
    "verify_error", False,
    "Raise an error, not a warning, at the call after a mismatch that `verify_rate` found.",
    env=("WEFT_VERIFY_ERROR",),
)
log_transfers = _flag(
    "log_transfers", False,
    "Log each array copied between the host and a device, or gathered from shards.",
    env=("WEFT_LOG_TRANSFERS",), observes=True,
)
log_checkpoint_residuals = _flag(
    "log_checkpoint_residuals", False, "Log what `checkpoint` keeps for the backward pass."
)
logging_level = _choice(
    "logging_level", "NOTSET DEBUG INFO WARNING ERROR CRITICAL", "NOTSET",
    "Level of weft's loggers; `NOTSET` leaves it to `logging`.",
)
debug_log_modules = _text(
    "debug_log_modules", "", "Modules to log at level DEBUG, separated by commas."
)
pprint_use_color = _flag("pprint_use_color", True, "Colours in printed Jaxprs on a terminal.")
tracer_error_num_traceback_frames = _int(
    "tracer_error_num_traceback_frames", 5,
    "The error names the line that made the value.", effect=False,
)
traceback_filtering = _choice(
    "traceback_filtering", "off tracebackhide remove_frames quiet_remove_frames auto", "auto",
    "How weft's own frames are hidden from tracebacks; `off` shows them.",
)
traceback = _choice(
    "traceback", "filtered full", "filtered", "`full` shows weft's own frames in tracebacks.",
    env=("WEFT_TRACEBACK",),
)

# ------------------------------------------------------------------ where and how things run

backend = _choice(
    "backend", "native reference", "native",
    "How the CPU runs programs: with native code, or with NumPy, kernel by kernel (`interpret` is"
    " an older name). `WEFT_PLATFORMS=reference` does the same.",
    in_key=True, env=("WEFT_BACKEND",), aliases={"interpret": "reference"},
)
routines = _text(
    "routines", "on",
    "Hand-written CPU routines: `on`, `off`, or a list to turn off, such as"
    " `-sorting,-fourier`; generated kernels replace them.",
    in_key=True, env=("WEFT_ROUTINES",),
    accepts=(
        lambda text: isinstance(text, str)
        and (text in ("on", "off") or all(part[:1] == "-" for part in text.split(","))),
        "'on', 'off' or names that begin with '-', by comma",
    ),
)
debug = _int(
    "debug", 0, "How much to print about compilation, from 0 (nothing) to 7 (all).",
    choices=range(8), env=("WEFT_DEBUG",),
)
dump = _text("dump", None, "A folder that receives every stage of compilation.",
             env=("WEFT_DUMP",))
verify = _int(
    "verify", 0, "Verify programs: 0 at the end, 1 after each pass, 2 also each kernel.",
    choices=range(3), env=("WEFT_VERIFY",),
)
cache = _text("cache", None, "The folder of the disk cache; `off` for none.", env=("WEFT_CACHE",))
shape_generic = _flag(
    "shape_generic", True,
    "Use shape-generic code from the second shape of a function on.",
    env=("WEFT_SHAPE_GENERIC",),
)
deterministic_ops = _flag(
    "deterministic_ops", False,
    "Make GPUs give the same bits in every run: scattered floats are summed in order.",
    in_key=True, env=("WEFT_DETERMINISTIC_OPS",),
)
exact_after = _int(
    "exact_after", 8,
    "After this many calls with one shape, specialise shape-generic code in the background;"
    " 0 for never.",
    env=("WEFT_EXACT_AFTER",),
)
cache_programs = _flag(
    "cache_programs", True, "Keep plans of programs in the disk cache, not only their code.",
    env=("WEFT_CACHE_PROGRAMS",),
)
compile_progress = _flag(
    "compile_progress", True,
    "On terminals and in notebooks, show a line while tracing and compiling take more than 2 s.",
    env=("WEFT_COMPILE_PROGRESS",),
)
num_threads = _int(
    "num_threads", None, "Threads that compiled programs may use; all allowed cores by default.",
    env=("WEFT_NUM_THREADS",),
)
num_cpu_devices = _int("num_cpu_devices", -1, "How many devices the host shows; -1 for one.")
platforms = _text(
    "platforms", None, "Platforms to use, separated by commas; the first is the default."
)
platform_name = _text("platform_name", "", "Older form of `platforms`.")
cuda_visible_devices = _text(
    "cuda_visible_devices", "all", "CUDA devices to use: `all`, or numbers separated by commas."
)
gpu_memory_fraction = Knob(
    "gpu_memory_fraction", float, 1.0,
    "The largest share of a GPU's memory to allocate, between 0 and 1.",
    accepts=(lambda x: 0 < x <= 1, "a number above 0, up to 1"),
    env=("WEFT_GPU_MEMORY_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"),
)
gpu_rematerialise = Knob(
    "gpu_rematerialise", float, 0.8,
    "In programs that take more than this share of a GPU's memory, compute values again that a few"
    " elementwise operations give, instead of keeping them; 0 for all programs.",
    accepts=(lambda x: x >= 0, "a number from 0 up"), in_key=True, env=("WEFT_GPU_REMATERIALISE",),
)
gpu_compile_twice = _flag(
    "gpu_compile_twice", True,
    "Compile a GPU program's kernels quickly for its first calls, and in the background again with"
    " all optimisations; results are the same to the bit.",
    env=("WEFT_GPU_COMPILE_TWICE",),
)
gpu_refill = Knob(
    "gpu_refill", int, 0,
    "On a GPU, batched loops of at least this many elements have fewer threads than elements, and"
    " threads that are done take the next ones; 0 for a thread for each element.",
    accepts=(lambda x: x >= 0, "a number from 0 up"), in_key=True, env=("WEFT_GPU_REFILL",),
)
cpu_collectives_implementation = _choice(
    "cpu_collectives_implementation", "gloo mpi megascale", "gloo",
    "MPI carries messages between processes.", effect=False,
)
distributed_timeout = Knob(
    "distributed_timeout", float, 60.0,
    "Seconds that a process waits for others in a collective before it gives up.",
    env=("WEFT_DISTRIBUTED_TIMEOUT",),
)
distributed_debug = _flag(
    "distributed_debug", False,
    "Errors name the processes and programs.", effect=False,
)
enable_compilation_cache = _flag(
    "enable_compilation_cache", True, "Use the disk cache of compiled programs."
)
compilation_cache_dir = _text(
    "compilation_cache_dir", None, "The folder of the disk cache, like `cache`.",
    env=("WEFT_CACHE_DIR", "WEFT_COMPILATION_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR"),
)
compilation_cache_max_size = _int(
    "compilation_cache_max_size", -1,
    "The largest size of the disk cache in bytes; -1 for weft's default.",
)
compilation_cache_check_contents = _flag(
    "compilation_cache_check_contents", False, "On a hit, compile anyway and compare."
)
eager_compile_share = Knob(
    "eager_compile_share", float, 0.25,
    "The largest share of time for compiling eager operations; 1 for no limit.",
    env=("WEFT_EAGER_COMPILE_SHARE",),
)
persistent_cache_min_compile_time_secs = Knob(
    "persistent_cache_min_compile_time_secs", float, 1.0,
    "Every program is kept: an entry takes a few kilobytes.", effect=False,
)
persistent_cache_min_entry_size_bytes = _int(
    "persistent_cache_min_entry_size_bytes", 0,
    "Every program is kept: an entry takes a few kilobytes.", effect=False,
)
raise_persistent_cache_errors = _flag(
    "raise_persistent_cache_errors", False, "Raise instead of warning when the disk cache fails."
)
use_shardy_partitioner = _flag(
    "use_shardy_partitioner", True,
    "Write shardings for PJRT plugins in the form of XLA's partitioner Shardy, not of GSPMD.",
    in_key=True,
)
dump_ir_to = _text("dump_ir_to", "", "A folder that receives each traced program.")
dump_ir_modes = _text(
    "dump_ir_modes", "stablehlo",
    "What `dump_ir_to` writes, separated by commas: `jaxpr`, `stablehlo`.",
)
export_calling_convention_version = _int(
    "export_calling_convention_version", 10,
    "There is one calling convention.", effect=False,
)

# ------------------------------------------------------------------ accepted, without effect

# Options of JAX's other parts (XLA, TPU, Pallas, jax2tf) that programs set; nothing here
# depends on them.
_WITHOUT_EFFECT: dict[type, dict[str, Any]] = {
    bool: {
        "bcoo_cusparse_lowering": False, "check_proxy_envs": True,
        "compilation_cache_expect_pgle": False,
        "compilation_cache_include_metadata_in_key": False, "compiler_enable_remat_pass": True,
        "cpu_enable_async_dispatch": True,
        "debug_leaked_clients_on_clear_backends": False, "disable_most_optimizations": False,
        "disable_vmap_shmap_error": False, "disallow_mesh_context_manager": False,
        "enable_pgle": False, "enable_preemption_service": True, "enable_recoverability": False,
        "experimental_unsafe_xla_runtime_errors": False,
        "export_ignore_forward_compatibility": False, "force_dcn_cross_host_transfers": False,
        "include_debug_info_in_dumps": True, "include_full_tracebacks_in_locations": True,
        "jax2tf_associative_scan_reductions": False, "jax2tf_default_native_serialization": True,
        "mosaic_allow_hlo": False, "pallas_enable_debug_checks": False,
        "pallas_poison_buffers": False, "pallas_use_mosaic_gpu": True,
        "pallas_verbose_errors": False, "ragged_dot_use_gpu_pallas_triton_lowering": False,
        "ragged_dot_use_ragged_dot_instruction": True, "refs_to_pins": False, "remat3": False,
        "remove_custom_partitioning_ptr_from_cache_key": False, "scan3": False,
        "share_binary_between_hosts": False, "sort_devices_by_process_index": True,
        "threefry_gpu_kernel_lowering": False, "use_emit_pipeline_primitive": False,
        "use_simplified_jaxpr_constants": False,
    },
    int: {
        "compiler_detailed_logging_min_ops": 10, "cpu_get_global_topology_timeout_minutes": 5,
        "cpu_get_local_topology_timeout_minutes": 2, "cross_host_transfer_timeout_seconds": None,
        "cross_host_transfer_transfer_size": None, "mock_num_gpu_processes": 0,
        "pgle_aggregation_percentile": 90, "pgle_profiling_runs": 3, "serialization_version": 0,
        "share_binary_between_hosts_timeout_ms": 1200000, "traceback_in_locations_limit": 100,
        "xla_profile_version": 0,
    },
    float: {"exec_time_optimization_effort": 0.0, "memory_fitting_effort": 0.0},
    str: {
        "backend_target": "", "cross_host_transfer_socket_address": "",
        "cross_host_transport_addresses": "", "hlo_source_file_canonicalization_regex": None,
        "memory_fitting_level": "O2", "mock_gpu_topology": "", "oneapi_visible_devices": "all",
        "optimization_level": "UNKNOWN",
        "persistent_cache_enable_xla_caches": "xla_gpu_per_fusion_autotune_cache_dir",
        "pjrt_client_create_options": None, "rocm_visible_devices": "all",
        "send_traceback_to_runtime": "off", "source_url_schema": None, "use_magma": "auto",
        "xla_backend": "",
    },
}
for _kind, _options in _WITHOUT_EFFECT.items():
    for _name, _default in _options.items():
        Knob(_name, _kind, _default, "weft has no such part.", effect=False)
jax2tf_associative_scan_reductions = _registry["jax2tf_associative_scan_reductions"]

# fmt: on
# Made last: from here on a new knob is also told to every thread that is running.
thread = _Thread()


def flushes() -> bool:
    """Whether native code takes denormal numbers for zeros; processors differ in which results
    these are, so not where all are to give the same bits."""
    return thread.denormals == "flush" and not thread.reproducible
