"""Cases that run on weft.linen and on flax: how one is run, recorded and compared."""

import importlib
import inspect
import io
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Case:
    """A name, and a function from a library to a pytree of arrays."""

    name: str
    run: object


def library(name: str, dtype: str = "float32") -> SimpleNamespace:
    """The names that cases use, of weft or of flax on JAX."""
    base, around = ("weft", "weft.linen") if name == "weft" else ("jax", "flax")
    find = importlib.import_module
    J = SimpleNamespace(jax=find(base), jnp=find(f"{base}.numpy"), lax=find(f"{base}.lax"))
    J.nn = find("weft.linen" if name == "weft" else "flax.linen")
    for part in "core jax_utils serialization struct traverse_util".split():
        setattr(J, part, find(f"{around}.{part}"))
    for part in "common_utils dynamic_scale early_stopping lr_schedule train_state".split():
        setattr(J, part, find(f"{around}.training.{part}"))
    J.errors = find(f"{around}.errors")
    J.dtype = getattr(J.jnp, dtype)
    return J


# The modules whose names are compared, by what they are below weft.linen.
MODULES = {
    "": "flax.linen",
    "initializers": "flax.linen.initializers",
    "spmd": "flax.linen.spmd",
    **{
        name: f"flax.{name}"
        for name in (
            *("core", "errors", "jax_utils", "serialization", "struct", "traverse_util"),
            *(f"training.{part}" for part in ("train_state", "common_utils", "dynamic_scale")),
            *("training.checkpoints", "training.early_stopping", "training.lr_schedule"),
        )
    },
}


def parameters(held) -> str | None:
    """The parameters of a function or class by name, ``=`` after those with a default."""
    try:
        found = inspect.signature(held).parameters.values()
    except (TypeError, ValueError):
        return None
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    if [p.name for p in found] == ["args", "kwargs"] and isinstance(held, type):
        return None  # nothing is said about what it takes
    plain = [p for p in found if p.name not in ("parent", "name") or not isinstance(held, type)]
    return ", ".join(
        marks.get(p.kind, "") + p.name + ("" if p.default is p.empty else "=") for p in plain
    )


def flax_names() -> dict[str, dict[str, str | None]]:
    """The public functions and classes of flax by module, with their parameters."""
    found: dict[str, dict[str, str | None]] = {}
    for key, module in MODULES.items():
        held = importlib.import_module(module)
        names = [n for n in dir(held) if n[0] != "_" and callable(getattr(held, n))]
        own = lambda x: str(getattr(x, "__module__", "")).startswith(("flax", "jax"))
        chosen = [n for n in names if own(getattr(held, n))]
        if key not in ("", "initializers"):  # what they import from elsewhere is not theirs
            chosen = [n for n in chosen if getattr(held, n).__module__.startswith("flax")]
        found[key] = {n: parameters(getattr(held, n)) for n in sorted(chosen)}
    return found


def array(J, *shape, seed: int = 0, dtype=None):
    """Numbers from a frozen seed, the same for both libraries."""
    values = np.random.RandomState(seed).standard_normal(shape)
    return J.jnp.asarray(values, J.dtype if dtype is None else dtype)


def integers(J, *shape, high: int, seed: int = 0):
    return J.jnp.asarray(np.random.RandomState(seed).randint(0, high, shape), J.jnp.int32)


def keys(J, *names: str):
    """A dictionary of keys by stream."""
    return {name: J.jax.random.key(i) for i, name in enumerate(names)}


def total(J, out):
    """A scalar that depends on every element of a result."""
    leaves = [x for x in J.jax.tree.leaves(out) if is_float_type(J, x)]
    wide = [x.astype(J.jnp.promote_types(x.dtype, J.jnp.float32)) for x in leaves]
    return sum(J.jnp.sum(J.jnp.sin(x)) for x in wide)


def is_float_type(J, x) -> bool:
    return J.jnp.issubdtype(x.dtype, J.jnp.floating)


def layer(J, module, *inputs, streams=("params",), mutable=False, grad=True, **kwargs):
    """Variables from a key, the output, changed collections, and gradients of a layer."""
    rngs = keys(J, *streams)
    variables = module.init(rngs, *inputs, **kwargs)
    fixed = {k: v for k, v in variables.items() if k != "params"}
    moving = [i for i, x in enumerate(inputs) if hasattr(x, "dtype") and is_float_type(J, x)]

    def loss(params, chosen):
        given = list(inputs)
        for i, x in zip(moving, chosen):
            given[i] = x
        held = {"params": params, **fixed} if params else fixed
        options = {"rngs": keys(J, *streams[1:]) or None, "mutable": mutable, **kwargs}
        out = module.apply(held, *given, **options)
        return total(J, out[0] if mutable else out), out

    params, chosen = variables.get("params", {}), [inputs[i] for i in moving]
    if not grad:
        return variables, loss(params, chosen)[1]
    grads, out = J.jax.grad(loss, argnums=(0, 1), has_aux=True)(params, chosen)
    return variables, out, grads


def flatten(J, tree) -> dict[str, np.ndarray]:
    """The leaves by path, as NumPy arrays; keys of random streams by their bits."""
    named = {}
    for path, leaf in J.jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = J.jax.tree_util.keystr(path)
        if hasattr(leaf, "dtype") and J.jnp.issubdtype(leaf.dtype, J.jax.dtypes.prng_key):
            leaf = J.jax.random.key_data(leaf)
        value = np.asarray(leaf)
        if value.dtype.name == "bfloat16":
            value = value.astype(np.float32)
            name += " bf16"
        named[name] = value
    return named


def run(case: Case, J, jit: bool = False) -> dict:
    """What a case gives: arrays by path, or the name of the error's class."""
    try:
        with J.jax.enable_x64(J.dtype == J.jnp.float64):
            call = J.jax.jit(lambda: case.run(J)) if jit else lambda: case.run(J)
            return {"leaves": flatten(J, call())}
    except Exception as error:
        return {"error": type(error).__name__, "text": str(error)}


def save(name: str, results: dict[str, dict]) -> None:
    """Write results: an index of paths and errors, and all numbers of a dtype in one array."""
    index, pools = {}, {}
    for case, result in results.items():
        if "error" in result:
            index[case] = result["error"]
            continue
        entry = index[case] = {}
        for path, value in result["leaves"].items():
            kind = value.dtype.name
            pool = pools.setdefault(kind, [])
            start = sum(x.size for x in pool)
            pool.append(value.reshape(-1))
            entry[path] = [kind, start, list(value.shape)]
    arrays = {kind: np.concatenate(pool) for kind, pool in pools.items()}
    arrays["index"] = np.frombuffer(zlib.compress(json.dumps(index).encode(), 9), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    (DATA / f"{name}.npz").write_bytes(buffer.getvalue())


def load(name: str) -> dict:
    """Results by case: the class of an error, or arrays by path."""
    with np.load(DATA / f"{name}.npz") as file:
        arrays = dict(file)
    index = json.loads(zlib.decompress(arrays.pop("index").tobytes()))
    for case, entry in index.items():
        if isinstance(entry, dict):
            index[case] = {
                path: arrays[kind][start : start + int(np.prod(shape))].reshape(shape)
                for path, (kind, start, shape) in entry.items()
            }
    return index


def compare(found: dict, wanted) -> None:
    """Fail where a result differs from the record: class of error, paths, dtypes or values."""
    if isinstance(wanted, str):
        assert found.get("error") == wanted, f"flax raises {wanted}, here: {found}"
        return
    assert "leaves" in found, f"{found.get('error')}: {found.get('text')}"
    leaves = found["leaves"]
    assert sorted(leaves) == sorted(wanted)
    narrow = any(v.dtype == np.float32 for v in wanted.values())
    rough = any(path.endswith(" bf16") for path in wanted)
    bound = 2e-2 if rough else (1e-5 if narrow else 1e-12)
    for path, value in wanted.items():
        ours = leaves[path]
        # Python's integers are recorded from inside of jit, which makes arrays of them.
        counts = {ours.dtype.name, value.dtype.name} <= {"int32", "int64"}
        assert ours.shape == value.shape and (counts or ours.dtype == value.dtype), path
        if not np.issubdtype(value.dtype, np.inexact):
            np.testing.assert_array_equal(ours, value, err_msg=path)
            continue
        size = max(1.0, float(np.abs(value[np.isfinite(value)]).max(initial=0.0)))
        np.testing.assert_allclose(ours, value, rtol=bound, atol=bound * size, err_msg=path)


def stored_trees() -> dict:
    """Trees whose bytes are recorded, with every kind of leaf and length that has its own form."""
    rng = np.random.RandomState(0)
    arrays = {
        kind: rng.randint(0, 9, (2, 3)).astype(kind) for kind in ("f2", "f4", "f8", "i1", "u4")
    }
    return {
        "arrays": {
            **arrays,
            "empty": np.zeros((0, 4)),
            "scalar": np.array(2.5),
            "bool": np.array([True]),
        },
        "values": {
            "none": None,
            "flags": [True, False],
            "ints": [0, 127, 128, 255, 256, 65535, 65536, 2**32, 2**63, -1, -32, -33, -128, -129],
            "more": [-(2**15), -(2**15) - 1, -(2**31), -(2**31) - 1, -(2**63)],
            "floats": [0.5, -1e300],
            "complex": 1 + 2j,
            "texts": ["", "a" * 31, "b" * 32, "c" * 256, "ü" * 40],
            "bytes": [b"", b"x" * 255, b"y" * 256],
            "scalars": [np.float32(1.5), np.int64(7)],
            "tuple": (1, (2, 3)),
        },
        "large": {f"key{i}": i for i in range(20)},
    }
