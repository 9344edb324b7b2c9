"""A drawn call run on a library, what came out of it, and how two runs differ."""

from __future__ import annotations

import contextlib
import importlib
import operator
import re
import warnings
from typing import Any

import ml_dtypes
import numpy as np

from tests.oracle import harness
from tests.oracle.harness import Leaf, Outcome, arrays_of, compare_leaf, floats_of, is_array
from tests.oracle.table import Tol, is_inexact

from .draw import LOOSE
from .programs import PROGRAMS

# Units in the last place, of the largest element: these runs look for faults of kind, not of bits.
TOLERANCE = Tol(2048, True)
DERIVED = Tol(65536, True)


class Library(harness.Namespace):
    """A library under JAX's names, with its layers and optimisers."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        packages = {"linen": "flax.linen", "optim": "optax"}
        if name != "jax":
            packages = {"linen": f"{name}.linen", "optim": f"{name}.optim"}
        packages["experimental_sparse"] = f"{name}.experimental.sparse"
        self._packages = packages

    def __getattr__(self, attr: str) -> Any:
        packages = self.__dict__.get("_packages", {})
        if attr in packages:
            return importlib.import_module(packages[attr])
        return super().__getattr__(attr)


def dtype_of(name: str) -> np.dtype:
    return np.dtype(getattr(ml_dtypes, name)) if name == "bfloat16" else np.dtype(name)


def numbers(shape: list[int], dtype: str, seed: int, domain: str) -> np.ndarray:
    """The elements of an array, by the generator whose stream NumPy has frozen."""
    rng, kind = np.random.RandomState(seed), dtype_of(dtype)
    size = tuple(shape)
    if domain == "index":
        return np.asarray(rng.randint(0, 4, size)).astype(kind)
    if dtype == "bool":
        return np.asarray(rng.rand(*size) > 0.4)
    if kind.kind in "iu":
        low = 0 if kind.kind == "u" or domain in ("unit", "positive") else -4
        return np.asarray(rng.randint(low, 6, size)).astype(kind)
    draws = {
        "normal": lambda: rng.standard_normal(size),
        "unit": lambda: rng.uniform(0.05, 0.95, size),
        "positive": lambda: rng.uniform(0.3, 3.0, size),
        "small": lambda: rng.randint(-3, 4, size).astype(float),
    }
    found = np.asarray(draws[domain]())
    if kind.kind == "c":
        found = found + 1j * np.asarray(draws[domain]())
    return found.astype(kind)


def built(J: Any, value: Any) -> Any:
    """A value of a drawn call."""
    if not isinstance(value, list):
        return value
    tag, *rest = value if value else ("list",)
    if tag == "array":
        return J.jnp.asarray(numbers(*rest))
    if tag == "key":
        return J.random.key(*rest)
    if tag == "dtype":
        return dtype_of(*rest)
    if tag == "tuple":
        return tuple(built(J, v) for v in rest)
    if tag == "list":
        return [built(J, v) for v in rest]
    if tag == "slice":
        return slice(*rest)
    if tag == "ellipsis":
        return ...
    return value  # plain data of a program


def function_of(J: Any, call: dict[str, Any]) -> Any:
    """A function of the built arguments."""
    options = {k: built(J, v) for k, v in call.get("options", {}).items()}
    if "program" in call:
        return lambda *args: PROGRAMS[call["program"]].run(J, *args)
    if "operator" in call:
        name = call["operator"]
        name = name + "_" if name in ("and", "or") else name
        return getattr(operator, name)
    if "method" in call:
        name = call["method"]

        def method(x: Any, *args: Any) -> Any:
            found = getattr(x, name)
            return found(*args, **options) if callable(found) else found

        return method
    if "index" in call:
        kind = call["index"]
        if kind == "get":
            return lambda x, index: x[index]
        name = kind.split()[1]
        if name == "apply":
            return lambda x, index: x.at[index].apply(lambda v: v * 2, **options)
        return lambda x, index, *args: getattr(x.at[index], name)(*args, **options)
    module, _, name = call["function"].rpartition(".")
    found = importlib.import_module(f"{J._name}.{module}")
    return lambda *args: getattr(found, name)(*args, **options)


class Nesting:
    """The transformations around a call: of a function of arrays alone."""

    def __init__(self, J: Any, fun: Any, args: list[Any]) -> None:
        self.J, self.fun, self.args = J, fun, args
        self.places = [i for i, a in enumerate(args) if is_array(a) and str(a.dtype)[:3] != "key"]
        self.inexact = [i for i in self.places if is_inexact(args[i].dtype)]

    def of(self, places: list[int]) -> tuple[Any, list[Any]]:
        def call(*xs: Any) -> Any:
            merged = list(self.args)
            for i, x in zip(places, xs, strict=True):
                merged[i] = x
            return self.fun(*merged)

        return call, [self.args[i] for i in places]

    def run(self, nest: str) -> Any:
        derived = any(w in nest for w in ("grad", "jvp", "vjp", "jac", "linearize"))
        if nest == "call" or not (self.inexact if derived else self.places):
            return self.fun(*self.args)
        return getattr(self, nest.replace(" ", "_"))()

    def arrays(self) -> tuple[Any, list[Any]]:
        call, xs = self.of(self.places)
        return (lambda *ys: arrays_of(call(*ys))), xs

    def jit(self) -> Any:
        call, xs = self.arrays()
        return self.J.jit(call)(*xs)

    def eval_shape(self) -> Any:
        call, xs = self.arrays()
        return [f"{s.dtype}{tuple(s.shape)}" for s in self.J.eval_shape(call, *xs)]

    def stacked(self, xs: list[Any], axis: int) -> list[Any]:
        stack = self.J.jnp.stack
        return [stack([x, x[::-1] if x.ndim else x], axis if x.ndim else 0) for x in xs]

    def vmap(self) -> Any:
        call, xs = self.arrays()
        return self.J.vmap(call)(*self.stacked(xs, 0))

    def vmap_last(self) -> Any:
        call, xs = self.arrays()
        return self.J.vmap(call, in_axes=-1, out_axes=-1)(*self.stacked(xs, -1))

    def jit_vmap(self) -> Any:
        call, xs = self.arrays()
        return self.J.jit(self.J.vmap(call))(*self.stacked(xs, 0))

    def vmap_vmap(self) -> Any:
        call, xs = self.arrays()
        xs = self.stacked(self.stacked(xs, 0), 0)
        return self.J.vmap(self.J.vmap(call))(*xs)

    def total(self) -> tuple[Any, list[Any]]:
        call, xs = self.of(self.inexact[:1])

        def total(*ys: Any) -> Any:
            parts = [
                self.J.jnp.sum(self.J.jnp.abs(y).astype("float32")) for y in floats_of(call(*ys))
            ]
            return sum(parts, self.J.jnp.float32(0))

        return total, xs

    def grad(self) -> Any:
        total, xs = self.total()
        return self.J.grad(total)(*xs)

    def jit_grad(self) -> Any:
        total, xs = self.total()
        return self.J.jit(self.J.grad(total))(*xs)

    def grad_checkpoint(self) -> Any:
        total, xs = self.total()
        return self.J.grad(self.J.checkpoint(total))(*xs)

    def grad_grad(self) -> Any:
        total, xs = self.total()
        first = self.J.grad(total)
        return self.J.grad(lambda *ys: self.J.jnp.sum(first(*ys).real))(*xs)

    def vmap_grad(self) -> Any:
        total, xs = self.total()
        return self.J.vmap(self.J.grad(total))(*self.stacked(xs, 0))

    def smooth(self) -> tuple[Any, list[Any]]:
        call, xs = self.of(self.inexact[:2])
        return (lambda *ys: floats_of(call(*ys))), xs

    def jvp(self) -> Any:
        call, xs = self.smooth()
        return self.J.jvp(call, tuple(xs), tuple(self.J.jnp.ones_like(x) for x in xs))

    def linearize(self) -> Any:
        call, xs = self.smooth()
        out, push = self.J.linearize(call, *xs)
        return [out, push(*[self.J.jnp.ones_like(x) for x in xs])]

    def vjp(self) -> Any:
        call, xs = self.smooth()
        out, pull = self.J.vjp(call, *xs)
        return pull([self.J.jnp.ones_like(y) for y in out])

    def jacfwd(self) -> Any:
        call, xs = self.of(self.inexact[:1])
        return self.J.jacfwd(lambda *ys: floats_of(call(*ys)))(*xs)

    def jacrev(self) -> Any:
        call, xs = self.of(self.inexact[:1])
        return self.J.jacrev(lambda *ys: floats_of(call(*ys)))(*xs)

    def scan(self) -> Any:
        call, xs = self.arrays()
        return self.J.lax.scan(lambda c, _: (c + 1, call(*xs)), 0, None, length=2)

    def cond(self) -> Any:
        call, xs = self.arrays()
        return self.J.lax.cond(True, call, call, *xs)

    def shard_map(self) -> Any:
        call, xs = self.arrays()
        mesh = self.J.make_mesh((2,), ("x",), axis_types=(self.J.sharding.AxisType.Auto,))
        spec = self.J.P()
        return self.J.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec)(*xs)


@contextlib.contextmanager
def setting(J: Any, name: str) -> Any:
    """The setting of a call; a mesh is made of two devices."""
    scopes = {
        "plain": contextlib.nullcontext,
        "x64": lambda: J.enable_x64(True),
        "rank": lambda: J.numpy_rank_promotion("raise"),
        "strict": lambda: J.numpy_dtype_promotion("strict"),
        "nans": lambda: J.debug_nans(True),
        "leaks": lambda: J.checking_leaks(),
    }
    if name in scopes:
        with scopes[name]():
            yield
        return
    kind = getattr(J.sharding.AxisType, name.split()[0].capitalize())
    with J.set_mesh(J.make_mesh((2,), ("m",), axis_types=(kind,))):
        yield


def result(J: Any, call: dict[str, Any]) -> Outcome:
    """What a call gives on a library."""
    runner = harness.Runner.__new__(harness.Runner)
    runner.J = J

    def thunk() -> Any:
        args = [built(J, v) for v in call["args"]]
        found = Nesting(J, function_of(J, call), args).run(call["nest"])
        return listed(found)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with setting(J, call["setting"]):
                return runner.outcome(thunk)
        except Exception as error:  # of the scope itself
            return Outcome(error=type(error).__name__, message=str(error))


def listed(x: Any) -> Any:
    """A result with named tuples and records as plain tuples."""
    if isinstance(x, dict):
        return {str(k): listed(v) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        return type(x)(map(listed, x)) if type(x) in (tuple, list) else tuple(map(listed, x))
    if isinstance(x, np.generic):
        return np.asarray(x)
    if x is None or is_array(x) or isinstance(x, (bool, int, float, complex, str, np.dtype, type)):
        return x
    if hasattr(x, "_fields"):
        return tuple(listed(getattr(x, f)) for f in x._fields)
    return f"<{type(x).__name__}>"


# --- comparing ------------------------------------------------------------------------------------

# JAX leaves these open, or stumbles into them: any refusal will do, and so does an answer.
OPEN = frozenset(
    "NotImplementedError AttributeError AssertionError JaxRuntimeError XlaRuntimeError KeyError"
    " IndexError StopIteration RecursionError ZeroDivisionError UnboundLocalError MLIRError"
    " InconclusiveDimensionOperation OverflowError".split()
)

UNHASHABLE = "JAX refuses an array as a static argument, weft as an argument of the wrong type"
COMPLEX = "JAX puts complex numbers into the formula of a real distribution"
OUTSIDE = "SciPy gives weft's answer: NaN for bad parameters, derivative 0 outside the support"
NUMPY = "weft orders complex numbers as NumPy does"
SETS = "derivatives of sets without a size are zero in JAX"
AT_ZERO = "E_n(0) is 1 / (n - 1), where JAX has 1 / n"
TWO = "the call has two faults, and each library names another one"
STACKS = "weft takes stacks of matrices"
NO_MATRIX = "JAX adds what is not square to its transpose, by broadcasting"
PREFERRED = "JAX rounds the operands to integers before it multiplies"
CONCRETE = "JAX runs shard_map call by call outside of jit, so that values are known there"
UNREAD = "JAX does not look at an option that it has no use for"
LATE = "JAX refuses it when it compiles"
BOOLS = "NumPy takes booleans, too"
NO_SCALAR = "the fill value is not a scalar"
HALF = "weft computes in float32"
INTEGERS = "SciPy takes integers"
OWN_NANS = "JAX blames a NaN of its own formula"
ZERO = "0 ** z is 0 for a positive real part, as in NumPy"
KNOWN = "weft knows the values of arrays that a traced function closes over"
# Differences that stay, with the reason: patterns of what `described` says of them.
ACCEPTED = {
    r"Non-hashable static arguments": UNHASHABLE,
    r"TypeError: unhashable type: 'jaxlib": UNHASHABLE,
    r" (accepted|class) (\w*Concret|Tracer)\w+Error\b.*nest=(scan|grad ch\w+|jit grad)": KNOWN,
    r" weak output .*nest=shard_map": "JAX loses weak types of functions that it jits itself",
    r"^random.choice class ValueError, not ConcretizationTypeError": TWO,
    r"^scipy.signal.csd class TypePromotionError, not ValueError": TWO,
    r"^numpy.fft.rfftn dtype .*float16, not float32": HALF,
    r" (class|refused) .*(a concrete value is needed|must be concrete).*nest=shard_map": CONCRETE,
    r" class UnexpectedTracerError": "JAX loses a tracer that is given as a static argument",
    r" accepted FloatingPointError: .*encountered in stage": OWN_NANS,
    r"^scipy.special.(expi|fresnel) accepted FloatingPointError": OWN_NANS,
    r"^scipy.special.(expi|betaln) values .*want nan": "JAX's formula overflows in float16",
    r"^scipy.special.hyp2f1 values .*want -?inf": "SciPy gives weft's answer",
    r"^(operator pow|numpy.(float_)?pow(er)?|lax.pow) values .*want \(nan\+nanj\), got 0j": ZERO,
    r"^lax.slice class Tracer\w+Error": "the starts are arrays, and these are traced",
    r"^lax.ragged_dot\w* class .*group_offset must be None": TWO,
    r"^lax.linalg.eigh refused .*does not accept dtype bool": "JAX halves booleans",
    r"^optimised accepted TypePromotionError": "optax's own formula mixes dtypes",
    r"^numpy.float8_e8m0fnu values": "the dtype has no zero",
    r"^scipy.linalg.eigh_tridiagonal refused .*select must be": UNREAD,
    r"^scipy.stats.norm.isf class TypeError, not TypePromotionError": TWO,
    r"(R?FFT|rfft) input must be float32 or float64, got (b?float16)": HALF,
    r"Cannot lower jaxpr with verifier errors": "JAX makes a program that it cannot compile",
    r"The context mesh .* should match the mesh passed": "the harness gives shard_map its own mesh",
    r"^lax.conj .* does not accept dtype b?float16": "JAX refuses the gradient of its own result",
    r"^scipy.stats.norm.(ppf|isf) .*dtype=(int|uint|bool|b?float16)\d* is not": "SciPy takes it",
    r"^scipy.stats.norm.(ppf|isf) accepted .*sub does not accept dtype bool": BOOLS,
    r"^lax.broadcast_in_dim class TracerArray.*only integer scalar arrays": "an array as a shape",
    r"^lax.integer_pow refused .*interpreted as an integer": "the exponent is an integer",
    r"^scipy.special.beta values .*want nan, got 0\.0.*nest=jacrev": "0 times what is not finite",
    r"^random.(key|PRNGKey) refused .*made from an integer seed": LATE,
    r"^random.f accepted .*div: arrays must have the same number": "weft broadcasts parameters",
    r"^(numpy.|method )(nan)?arg(max|min) .*[gl]t does not accept dtype complex": NUMPY,
    r"^scipy.(stats|special).* refused (Type|Value)Error.* function of real numbers": COMPLEX,
    r"^scipy.stats.(beta|gamma|chi2|pareto|trunc|wrap).* values .*(nan|(want|got) -?0\.0)": OUTSIDE,
    r"^scipy.special.expn values .*want (1|0\.[235])\S*, got (inf|1|0\.[235])": AT_ZERO,
    r"^lax.linalg.eigh refused .*got -?\d": "no name of an implementation",
    r"^associative .* rev dimensions must": "JAX refuses negative axes where it goes backwards",
    r"^exported .* Error refining shapes": "JAX's compiler cannot read what JAX exported",
    r"^windowed .* Linearization failed": "JAX has no derivative of windows of products",
    r"^contracted values .*int32": PREFERRED,
    r"^(numpy.|method )\w+ values .*preferred_element_type=u?int": PREFERRED,
    r"^numpy.(set\w+|union1d|intersect1d|unique\w*) values .*want -?0(\.0|j)": SETS,
    r"^scipy.linalg.expm_frechet .*primal and tangent": "weft brings both to one dtype",
    r"^sharded(_pair)? text .* Auto\b": "on Auto axes the compiler chooses",
    r"^numpy.nextafter class TypeError.*'Zero\(": "JAX has no derivative, and stumbles over that",
    r"Called multiply with a float0 array": "JAX multiplies derivatives that it does not have",
    r"^numpy.u?int1 values": "JAX reads integers of one bit as booleans",
    r"^method sum refused .* scalar initial value": "the documentation asks for a scalar",
    r"^scipy.fft.i?dctn refused .*dctn got \d+ sizes for": "SciPy refuses other numbers of sizes",
    r"^index at get refused .*Unknown gather mode 'wrap'": UNREAD,
    r"^scipy.signal.\w+ refused .*the average is 'mean' or 'median'": UNREAD,
    r"^nn.standardize refused .*algorithm=": UNREAD,
    r"^numpy.full_like class .*non-negative sizes": TWO,
    r"^numpy.ravel_multi_index class .*of integer dtypes": TWO,
    r"^(numpy.|method )compress class ValueError, not TypeError: an axis must be": TWO,
    r"^random.\w+ class TypePromotionError, not ValueError: Incompatible shapes": TWO,
    r"^lax.slice class ValueError, not TypeError: slice needs integers": TWO,
    r"^scipy.linalg.hadamard accepted TypeError: neg does not accept dtype bool": BOOLS,
    r"^numpy.fft.rfft\w* refused .*at least one value.* nest=eval_shape": LATE,
    r"^random.multivariate_normal class .*(takes a mean of shape|cannot be negative)": TWO,
    r"^scipy.linalg.eigh_tridiagonal class": TWO,
    r"^lax.reduce_window_shape_tuple class": TWO,
    r"^(numpy|scipy|lax).linalg.\w+ refused .*as many rows as columns": NO_MATRIX,
    r"^scipy.linalg.(sqrtm|lu) accepted ValueError: (diag input must|too many values)": STACKS,
    r"^scipy.linalg.\w+ accepted TypeError: .*dtype=?.*float16.* not supported": HALF,
    r"^scipy.linalg.(schur|hessenberg|polar) accepted .*not (accept dtype|inexact)": INTEGERS,
    r"^scipy.(stats|special).* class \w+, not \w+: \S+ is a function of real": COMPLEX,
    r"^scipy.special.bessel_jn values .*want nan": "JAX's recurrence overflows near zero",
    r"^image.resize refused .*negative dimensions": "a negative size is a mistake",
    r"^scipy.special.owens_t accepted .*rank_promotion": "JAX's own formula mixes ranks",
    r"^numpy.fft.i?fftn accepted .*pad_width with nd=0": "a scalar has no axes to transform",
    r"^numpy.linalg.vector_norm dtype .*int.*ord=": "JAX takes roots in integers, which are 1",
    r"^numpy.(arg)?partition accepted TypeError: neg does not accept dtype bool": BOOLS,
    r"^numpy.intersect1d accepted .*zero-size array to reduction": "a size of 0 is no fault",
    r"^numpy.array_equiv accepted": "other shapes are not equivalent, as in NumPy",
    r"^numpy.linalg.multi_dot (refused|class) .*two or more": "JAX gives a row of one matrix",
    r"^numpy.polydiv refused .*vectors of coefficients": "no polynomials",
    r"^scipy.special.hyp[12]f1 accepted .*not inexact": "a derivative by others than the integer",
    r"^scipy.special.spence values .*(want|got) (nan|-?0\.0)": "JAX has no derivative of spence",
    r"^scipy.special.sph_harm_y (accepted|class)": "SciPy takes scalars and broadcasts",
    r"^scipy.stats.binom.logpmf values .*got -inf": "SciPy counts in whole numbers",
    r"^scipy.stats.poisson.entropy values .*want nan": "JAX differentiates what it does not choose",
    r"^lax.bitcast_convert_type accepted .*bool or complex": "weft reads complex numbers, too",
    r"^lax.stop_gradient (structure|text .*Typed)": "JAX boxes Python's numbers",
    r"^scipy.signal.fftconvolve dtype .*float16, not float32": HALF,
    r"^(method item class|numpy.trim_zeros refused) .*nest=shard_map": CONCRETE,
    r"^numpy.(extract|compress) refused .*array of size 1 to a Python scalar": NO_SCALAR,
}


def described(call: dict[str, Any], kind: str, text: str, want: Outcome) -> str:
    """The function, the kind of the difference, its details and JAX's error in one line."""
    error = f"{want.error}: {want.message}" if want.error else ""
    words = " ".join(value for value in call["args"] if isinstance(value, str))
    options = {k: v[-1] if isinstance(v, list) and v else v for k, v in call_options(call).items()}
    settings = " ".join(f"{k}={v}" for k, v in options.items())
    return " ".join(f"{name_of(call)} {kind} {text} {error} {words} {settings}".split())


def call_options(call: dict[str, Any]) -> dict[str, Any]:
    """The options of a call and its nesting."""
    return {**call.get("options", {}), "nest": call["nest"]}


def accepted(call: dict[str, Any], kind: str, text: str, want: Outcome) -> str:
    """The reason for which a difference stays, or an empty text."""
    line = described(call, kind, text, want)
    return next((why for pattern, why in ACCEPTED.items() if re.search(pattern, line)), "")


def difference(call: dict[str, Any], want: Outcome, got: Outcome) -> tuple[str, str]:
    """As ``any_difference``, without those that are accepted."""
    kind, text = any_difference(call, want, got)
    if kind and not accepted(call, kind, text, want):
        return kind, text
    return "", ""


def any_difference(call: dict[str, Any], want: Outcome, got: Outcome) -> tuple[str, str]:
    """The kind of a difference and its details; two empty texts where the runs agree."""
    if want.error in OPEN:
        return "", ""
    if want.error or got.error:
        if want.error and got.error:
            same = want.error == got.error or want.error in got.classes
            return ("", "") if same else ("class", f"{want.error}, not {got.error}: {got.message}")
        if got.error:
            return "refused", f"{got.error}: {got.message}"
        return "accepted", f"{want.error}: {want.message}"
    if want.structure != got.structure:
        return "structure", f"{want.structure}, not {got.structure}"
    name = (call.get("function") or call.get("program") or "").rpartition(".")[2]
    tolerance = TOLERANCE if call["nest"] in ("call", "jit", "vmap", "vmap last") else DERIVED
    for i, (w, g) in enumerate(zip(want.leaves, got.leaves, strict=True)):
        kind, text = leaf_difference(w, g, tolerance, name in LOOSE)
        if kind:
            return kind, f"output {i}: {text}"
    return "", ""


def leaf_difference(want: Leaf, got: Leaf, tolerance: Tol, loose: bool) -> tuple[str, str]:
    if (want.array is None) != (got.array is None):
        return "type", f"{want.dtype}, not {got.dtype}"
    if want.array is None:
        return ("", "") if want.text == got.text else ("text", f"{want.text}, not {got.text}")
    for attribute in ("dtype", "shape", "weak"):
        w, g = getattr(want, attribute), getattr(got, attribute)
        if w != g:
            return attribute, f"{w}, not {g}"
    if loose:
        return "", ""
    text = compare_leaf(want, got, tolerance)
    return ("values", text) if text else ("", "")


def name_of(call: dict[str, Any]) -> str:
    """The function, the program, or the kind of an expression."""
    return (
        call.get("function")
        or call.get("program")
        or next(f"{k} {call[k]}" for k in ("method", "operator", "index") if k in call)
    )


def cause(call: dict[str, Any], kind: str, text: str) -> str:
    """What differences of one cause share: the function, and the message without details."""
    name = name_of(call)
    if kind in ("class", "refused", "accepted"):
        text = re.sub(r"\[[^\]]*\]|\([^)]*\)|'[^']*'|\d+", "_", text)[:90]
        return f"{kind} | {text} | {name}"
    return f"{kind} | {name}"
