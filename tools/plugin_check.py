"""Runs many programs on one platform and keeps their results, then compares those of two platforms.

    python tools/plugin_check.py both FOLDER xla_cuda13 cuda --parts 6 --seconds 60

or step by step, `run FOLDER xla_cuda13 --part 0/4`, then `compare FOLDER xla_cuda13 cuda`. The
programs: training steps, groups of operations, samples of all primitives with their gradients,
random programs with theirs, and modules of StableHLO that JAX wrote. A GPU has one client in a
process, so each platform is a run of its own, in several parts at once.
"""

import argparse
import json
import lzma
import pickle
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import weft  # noqa: E402
import weft.numpy as jnp  # noqa: E402
from tests.compose.programs import generate  # noqa: E402
from tests.laws.checks import seed_of  # noqa: E402
from tests.samples import WIDE, all_samples  # noqa: E402
from tools.stablehlo_programs import programs  # noqa: E402
from weft import dtypes, export, linen, random  # noqa: E402
from weft.base.errors import HostFallbackWarning  # noqa: E402
from weft.dtypes.kinds import dtype_by_name  # noqa: E402

# Random programs, and how many of them are compiled together.
RANDOM_PROGRAMS, TOGETHER = 1000, 5
RECORDED = ROOT / "tests" / "mlir" / "data" / "jax_modules.json.xz"
# Samples whose results are meant to differ between platforms.
OF_PLATFORMS = "platform_index"
# How far results may be apart, as a part of the largest number: in float64, and in others.
CLOSE, TOLERANCE = 1e-9, 5e-3


# --- networks -------------------------------------------------------------------------------------


def train_step(loss, rate=0.1):
    """A step of gradient descent."""

    def step(params, data):
        value, grads = weft.value_and_grad(loss)(params, data)
        return weft.tree.map(lambda p, g: p - rate * g, params, grads), value

    return step


def transformer(width=64, layers=2, rows=4, length=32, types=False):
    """The loss of a small transformer, its parameters and data, or only their types."""

    class Model(linen.Module):
        @linen.compact
        def __call__(self, tokens):
            x = linen.Embed(256, width)(tokens)
            for _ in range(layers):
                y = linen.LayerNorm()(x)
                x = x + linen.MultiHeadDotProductAttention(4)(
                    y, mask=linen.make_causal_mask(tokens)
                )
                x = x + linen.Dense(width)(linen.gelu(linen.Dense(4 * width)(linen.LayerNorm()(x))))
            return linen.Dense(256)(x)

    model = Model()

    def loss(params, tokens):
        logits = weft.nn.log_softmax(model.apply(params, tokens))
        return -jnp.take_along_axis(logits, tokens[..., None], -1).mean()

    if types:
        tokens = weft.ShapeDtypeStruct((rows, length), "int32")
        return "transformer", loss, (weft.eval_shape(model.init, random.key(0), tokens), tokens)
    tokens = random.randint(random.key(1), (rows, length), 0, 256)
    return "transformer", loss, (model.init(random.key(0), tokens), tokens)


def convolutions():
    """The loss of a small residual network."""

    class Model(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.Conv(16, (3, 3))(x)
            for _ in range(2):
                y = linen.relu(linen.GroupNorm(4)(linen.Conv(16, (3, 3))(x)))
                x = linen.avg_pool(x + y, (2, 2), (2, 2))
            return linen.Dense(10)(x.mean((1, 2)))

    model = Model()
    images = random.normal(random.key(1), (4, 16, 16, 3))
    params = model.init(random.key(0), images)
    return "residual network", lambda p, x: (model.apply(p, x) ** 2).mean(), (params, images)


def recurrent():
    """The loss of a recurrent network."""
    cell = linen.RNN(linen.GRUCell(24))
    x = random.normal(random.key(1), (3, 12, 8))
    params = cell.init(random.key(0), x)
    return "recurrent network", lambda p, x: (cell.apply(p, x) ** 2).mean(), (params, x)


# --- programs -------------------------------------------------------------------------------------


def sampled(most=None, gradients=False):
    """Samples of all primitives, some of each, at their first dtype; and their gradients."""
    chosen = [s for s in all_samples() if s.axis is None and s.dtypes[0] not in WIDE]
    chosen = [s for s in chosen if not str(s).startswith(OF_PLATFORMS)]
    step = 1 if most is None else max(len(chosen) // most, 1)
    for sample in chosen[::step][:most]:
        dtype = sample.dtypes[0]
        function, operands = sample.function(dtype), sample.operands(dtype, seed_of(sample))
        yield str(sample), function, operands
        floats = [i for i, x in enumerate(operands) if is_float(x)]
        if gradients and floats:
            yield f"gradient of {sample}", gradient(function, floats), operands


def is_float(x):
    return dtypes.issubdtype(getattr(x, "dtype", np.int32), np.floating)


def gradient(function, floats):
    """The gradient of a weighted sum of the results, by operands with these numbers."""

    def total(given, rest):
        held = iter(rest)
        args = [given[i] if i in given else next(held) for i in range(len(given) + len(rest))]
        outs = [y for y in weft.tree.leaves(function(*args)) if is_float(y)]
        return sum((y * (1 + jnp.arange(y.size, dtype=y.dtype).reshape(y.shape) % 3)).sum()
                   for y in outs)  # fmt: skip

    def run(*args):
        given = {i: args[i] for i in floats}
        return weft.grad(total)(given, [x for i, x in enumerate(args) if i not in given])

    return run


def random_program(seed):
    """A random program in float64, and its gradient where it has one."""
    with weft.enable_x64(True):
        program, args, traits = generate(seed)
    function = lambda *xs: program(False, *xs)
    if "forward only" in traits:
        return function, args
    grads = gradient(function, list(range(len(args))))
    return lambda *xs: (function(*xs), grads(*xs)), args


def random_programs(first):
    """Several of them as one function."""
    made = [random_program(seed) for seed in range(first, first + TOGETHER)]
    function = lambda *rows: [fun(*row) for (fun, _), row in zip(made, rows, strict=True)]
    return function, [args for _, args in made]


def cases():
    """Names, and what makes a function and its arguments."""
    for name, loss, args in (transformer(), convolutions(), recurrent()):
        yield f"step/{name}", lambda loss=loss, args=args: (train_step(loss), args)
    for name, (function, *args) in programs().items():
        yield f"group/{name}", lambda function=function, args=args: (function, args)
    for seed in range(0, RANDOM_PROGRAMS, TOGETHER):
        yield f"random/{seed} and {TOGETHER - 1} more", lambda seed=seed: random_programs(seed)
    for name, function, args in sampled(400, gradients=True):
        kind = "gradient" if name.startswith("gradient of") else "sample"
        yield f"{kind}/{name}", lambda function=function, args=args: (function, args)
    for found in json.loads(lzma.decompress(RECORDED.read_bytes())):
        yield f"module/{found['name']}", lambda found=found: module(found)


def module(found):
    """A module that JAX wrote, as a function, and its arguments."""

    def array(held):
        name, shape, raw = held
        return np.frombuffer(bytes.fromhex(raw), dtype_by_name[name]).reshape(shape)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = export.from_stablehlo(found["text"])
    return made, [array(x) for x in found["ins"]]


# --- runs -----------------------------------------------------------------------------------------


def numbers(x):
    x = weft.random.key_data(x) if dtypes.issubdtype(x.dtype, dtypes.prng_key) else x
    found = np.asarray(x)
    kind = "complex128" if found.dtype.kind == "c" else "float64"
    return found if found.dtype.kind in "biu" or found.dtype == kind else found.astype(kind)


def there(x, device):
    return weft.tree.map(lambda v: weft.device_put(v, device) if hasattr(v, "dtype") else v, x)


def result(make, device, wide):
    """What became of a program: how it went, and its results."""
    with warnings.catch_warnings(record=True) as said, weft.enable_x64(wide):
        warnings.simplefilter("always")
        try:
            function, args = make()
            found = weft.tree.leaves(weft.jit(function)(*there(args, device)))
            values = [(str(x.dtype), numbers(x)) for x in found]
        except Exception as error:
            return "raise", f"{type(error).__name__}: {str(error)[:300]}"
    on_host = any(issubclass(w.category, HostFallbackWarning) for w in said)
    return ("host" if on_host else "ran"), values


def run(platform, folder, part, seconds):
    """Run one part of all programs, and write the results as they come."""
    begin = time.perf_counter()
    device = weft.devices(platform)[0]
    about = f"{device.device_kind}, {getattr(device.client, 'api', 'weft')}"
    print(f"{platform} {part}: {about}, {time.perf_counter() - begin:.1f} s", flush=True)
    number, count = map(int, part.split("/"))
    # programs of each kind in turn, so that a run that is too short has some of all
    kinds: dict = {}
    for name, make in cases():
        kinds.setdefault(name.partition("/")[0], []).append((name, make))
    ordered = sorted(
        (i / len(rows), name, make)
        for rows in kinds.values()
        for i, (name, make) in enumerate(rows)
    )
    done = 0
    with (folder / f"{platform}-{number}.pickle").open("wb") as out:
        for _, name, make in ordered[number::count]:
            if time.perf_counter() - begin > seconds:
                break
            wide = name.startswith("random/")
            pickle.dump((name, *result(make, device, wide)), out)
            out.flush()
            done += 1
    print(f"{platform} {part}: {done} of {len(ordered[number::count])} programs", flush=True)


def read(folder, platform):
    found = {}
    for path in folder.glob(f"{platform}-*.pickle"):
        with path.open("rb") as file:
            try:
                while True:
                    name, how, values = pickle.load(file)
                    found[name] = how, values
            except (EOFError, pickle.UnpicklingError):
                pass  # the end, or where the process was stopped
    return found


def distance(got, want):
    """How far results are apart, as a part of the largest."""
    worst = 0.0
    for (kind, a), (_, b) in zip(got, want, strict=True):
        with np.errstate(all="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b)) if a.dtype.kind in "fc" else a == b
            if a.size and not same.all():
                a, b = (v.astype(np.complex128 if v.dtype.kind == "c" else float) for v in (a, b))
                finite = np.abs(b[np.isfinite(b)])
                scale = max(float(finite.max()) if finite.size else 1.0, 1e-3)
                found = float(np.nanmax(np.abs(a - b)[~same] / scale))
                worst = max(worst, found / (CLOSE if kind == "float64" else TOLERANCE))
    return worst


def compared(folder, first, second):
    """What two platforms have of the same programs: counts of verdicts by kind, and those apart."""
    rows, others = read(folder, first), read(folder, second)
    counts: dict = {}
    apart = {}
    for name in rows:
        if name not in others:
            continue
        (how, got), (way, want) = rows[name], others[name]
        if "raise" in (how, way):
            verdict = "both raise" if how == way else "raises"
            text = got if how == "raise" else want
        else:
            far = distance(got, want)
            verdict = "apart" if far > 1 else "host" if "host" in (how, way) else "agree"
            text = f"{far:.2g} times the tolerance"
        counts.setdefault(name.partition("/")[0], Counter())[verdict] += 1
        if verdict in ("apart", "raises"):
            apart[name] = f"{verdict}: {text}"
    return {kind: dict(found) for kind, found in counts.items()}, apart


def compare(folder, first, second):
    """Print what two platforms have; how many programs are apart."""
    counts, apart = compared(folder, first, second)
    for name, text in apart.items():
        print(f"  {name}: {text}")
    for kind, found in counts.items():
        print(f"{kind}: {sum(found.values())} programs: {found}")
    return len(apart)


def both(folder, platforms, parts, seconds):
    """Run all programs on two platforms, in several processes at once."""
    started = []
    for platform in platforms:
        for number in range(parts):
            command = [sys.executable, __file__, "run", str(folder), platform]
            command += ["--part", f"{number}/{parts}", "--seconds", str(seconds)]
            started.append(subprocess.Popen(command))
    # a program may take longer than the time that is left
    latest = time.monotonic() + 1.1 * seconds + 5
    for process in started:
        try:
            process.wait(max(latest - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=["run", "compare", "both"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("platforms", nargs="+")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=1e6)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.task == "run":
        (platform,) = given.platforms
        weft.config.update("jax_platforms", f"cpu,{platform}")
        run(platform, given.folder, given.part, given.seconds)
    elif given.task == "compare":
        sys.exit(compare(given.folder, *given.platforms) > 0)
    else:
        both(given.folder, given.platforms, given.parts, given.seconds)
        sys.exit(compare(given.folder, *given.platforms) > 0)


if __name__ == "__main__":
    main()
