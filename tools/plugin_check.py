"""Runs programs on a PJRT plugin and compares them with another platform: what agrees, and how long
calls take. `python tools/plugin_check.py xla_cuda13 --against cuda --samples 300`."""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import weft  # noqa: E402
import weft.numpy as jnp  # noqa: E402
from tests.laws.checks import seed_of  # noqa: E402
from tests.samples import WIDE, all_samples  # noqa: E402
from tools.stablehlo_programs import programs  # noqa: E402
from weft import linen, random  # noqa: E402
from weft.base.errors import HostFallbackWarning  # noqa: E402


def numbers(x):
    is_key = weft.dtypes.issubdtype(x.dtype, weft.dtypes.prng_key)
    found = np.asarray(weft.random.key_data(x) if is_key else x)
    kind = "complex128" if found.dtype.kind == "c" else "float64"
    return found.astype(kind) if found.dtype.kind not in "biu" else found


def distance(got, want):
    """How far results are apart, as a part of the largest."""
    worst = 0.0
    for a, b in zip(map(numbers, got), map(numbers, want), strict=True):
        with np.errstate(all="ignore"):
            same = (a == b) | (np.isnan(a) & np.isnan(b)) if a.dtype.kind in "fc" else a == b
            if a.size and not same.all():
                finite = np.abs(b[np.isfinite(b)]) if b.dtype.kind in "fc" else np.abs(b)
                scale = max(float(finite.max()) if finite.size else 1.0, 1e-3)
                worst = max(worst, float(np.nanmax(np.abs(a - b)[~same] / scale)))
    return worst


def there(x, device):
    put = lambda v: weft.device_put(v, device) if hasattr(v, "dtype") else v
    return weft.tree.map(put, x)


def compared(cases, device, other, tolerance):
    """How many agree, are apart, raise and are the host's."""
    counts = {"agree": 0, "apart": 0, "raise": 0, "host": 0}
    for name, fun, args in cases:
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                got = weft.tree.leaves(weft.jit(fun)(*there(args, device)))
                found = distance(got, weft.tree.leaves(weft.jit(fun)(*there(args, other))))
        except Exception as error:
            counts["raise"] += 1
            print(f"  {name}: {type(error).__name__}: {str(error)[:160]}", flush=True)
            continue
        on_host = any(issubclass(w.category, HostFallbackWarning) for w in said)
        kind = "host" if on_host else "agree" if found <= tolerance else "apart"
        counts[kind] += 1
        if kind == "apart":
            print(f"  {name}: {found:.2g} apart", flush=True)
    return counts


def sampled(most):
    """Samples of all primitives, some of each, at their first dtype."""
    chosen = [s for s in all_samples() if s.axis is None and s.dtypes[0] not in WIDE]
    step = max(len(chosen) // most, 1)
    for sample in chosen[::step][:most]:
        dtype = sample.dtypes[0]
        yield str(sample), sample.function(dtype), sample.operands(dtype, seed_of(sample))


def transformer(width=64, layers=2, rows=4, length=32):
    """A training step of a small transformer."""

    class Model(linen.Module):
        @linen.compact
        def __call__(self, tokens):
            x = linen.Embed(256, width)(tokens)
            for _ in range(layers):
                y = linen.LayerNorm()(x)
                x = x + linen.SelfAttention(4)(y, mask=linen.make_causal_mask(tokens))
                x = x + linen.Dense(width)(linen.gelu(linen.Dense(4 * width)(linen.LayerNorm()(x))))
            return linen.Dense(256)(x)

    model = Model()
    tokens = random.randint(random.key(1), (rows, length), 0, 256)
    params = model.init(random.key(0), tokens)

    def loss(params, tokens):
        logits = weft.nn.log_softmax(model.apply(params, tokens))
        return -jnp.take_along_axis(logits, tokens[..., None], -1).mean()

    return "transformer", _step(loss), (params, tokens)


def convolutions():
    """A training step of a small residual network."""

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
    return "residual network", _step(lambda p, x: (model.apply(p, x) ** 2).mean()), (params, images)


def recurrent():
    """A training step of a recurrent network."""
    cell = linen.RNN(linen.GRUCell(24))
    x = random.normal(random.key(1), (3, 12, 8))
    params = cell.init(random.key(0), x)
    return "recurrent network", _step(lambda p, x: (cell.apply(p, x) ** 2).mean()), (params, x)


def _step(loss):
    def step(params, data):
        value, grads = weft.value_and_grad(loss)(params, data)
        return weft.tree.map(lambda p, g: p - 0.1 * g, params, grads), value

    return step


def microseconds(fun, args, count=2000):
    """The time of a call, results not waited for but at the end."""
    for _ in range(20):
        out = fun(*args)
    weft.block_until_ready(out)
    best = 1e9
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(count // 5):
            out = fun(*args)
        weft.block_until_ready(out)
        best = min(best, (time.perf_counter() - begin) / (count // 5))
    return best * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plugin")
    parser.add_argument("--against", default="cpu")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--tolerance", type=float, default=5e-3)
    given = parser.parse_args()
    begin = time.perf_counter()
    device, other = weft.devices(given.plugin)[0], weft.devices(given.against)[0]
    print(f"{device} {device.device_kind}: {device.client.platform_version[:60]}")
    print(f"client in {time.perf_counter() - begin:.1f} s; {device.client.api}", flush=True)
    steps = [transformer(), convolutions(), recurrent()]
    groups = [(name, fun, args) for name, (fun, *args) in programs().items()]
    for title, cases in [
        ("steps", steps),
        ("programs", groups),
        ("samples", sampled(given.samples)),
    ]:
        began = time.perf_counter()
        found = compared(cases, device, other, given.tolerance)
        print(f"{title}: {found} in {time.perf_counter() - began:.0f} s", flush=True)
    for place in (device, other):
        x = weft.device_put(jnp.ones(8), place)
        small = microseconds(weft.jit(lambda x, y: x * 2 + y), (x, x))
        eager = microseconds(lambda x: x + x, (x,))
        _, fun, args = transformer(256, 4, 8, 128)
        step = microseconds(weft.jit(fun), there(args, place), 50)
        told = f"call {small:.1f} us, eager {eager:.1f} us, transformer step {step:.0f} us"
        print(f"{place}: {told}", flush=True)
    print("memory:", device.memory_stats())


if __name__ == "__main__":
    main()
