"""Programs that are compiled for machines that are not here, and their FLOPs against ours.

`python tools/ahead_programs.py write FOLDER [PART]` writes modules of StableHLO with our count of
their operations; `python tools/ahead_programs.py compile FOLDER v5e:2x2 ...` compiles them with
libtpu, where it can be loaded (x86-64, no TPU is needed), and prints a line for each.

Counts are compared where products and convolutions make up nearly all of the work. They are by
libtpu's rules, as far as these are known (docs/tpus.md): one round of each loop, with a conversion
of the operands of its products; of a convolution, the pairs without padding and holes; work
that several devices repeat, each time.
"""

import json
import re
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import weft  # noqa: E402
import weft.numpy as jnp  # noqa: E402
from tools.plugin_check import sampled, train_step, transformer  # noqa: E402
from tools.stablehlo_programs import programs  # noqa: E402
from weft import lax, linen  # noqa: E402
from weft.backends.pjrt.program import compile_ahead, device_options  # noqa: E402
from weft.backends.pjrt.topology import Topology  # noqa: E402
from weft.compiler.analysis.cost import equation_cost  # noqa: E402
from weft.core.jaxpr import jaxprs_in_params  # noqa: E402
from weft.sharding import AbstractMesh, NamedSharding  # noqa: E402
from weft.sharding import PartitionSpec as P  # noqa: E402

COUNT, SAMPLES = 300, 270
# The part of the work that must be products for the counts to be compared, on one device and on
# several, which may repeat the rest; operations that a function and its derivative may be expanded
# into; and how far counts may be apart.
MOST, MOST_OF_SEVERAL, EXPANDED, TOLERANCE = 0.9, 0.97, 10, 0.05
# Programs that take libtpu most of the time; what it refuses, with its words; and what it counts
# in another way: for few images it moves places into the batch, with halos.
LARGE = ("transformer 2048", "transformer 4096")
REFUSED = {"select_and_scatter_add_ge_strides": "select-and-scatter with a window bound or window"}
OTHERWISE = (
    *("residual network 64 1 16 4", "residual network 64 2 16 8, step over 4"),
    "convolution 1 1, gradient",
)
# Counts that are too small to be compared: compilers merge and drop what small programs compute.
SMALLEST = 1e5


def struct(*shape, dtype="float32"):
    return weft.ShapeDtypeStruct(shape, dtype)


def initialised(model, *args):
    """The types of a model's parameters."""
    return weft.eval_shape(model.init, weft.random.key(0), *args)


# --- networks -------------------------------------------------------------------------------------


class Images(linen.Module):
    """A residual network."""

    channels: int
    blocks: int

    @linen.compact
    def __call__(self, x):
        x = linen.Conv(self.channels, (3, 3))(x)
        for _ in range(self.blocks):
            y = linen.relu(linen.GroupNorm(4)(linen.Conv(self.channels, (3, 3))(x)))
            x = x + linen.Conv(self.channels, (3, 3))(y)
        return linen.Dense(10)(x.mean((1, 2)))


class Layers(linen.Module):
    """A perceptron."""

    widths: tuple

    @linen.compact
    def __call__(self, x):
        for width in self.widths:
            x = linen.gelu(linen.Dense(width)(x))
        return linen.Dense(16)(x)


def images(channels, blocks, size, rows):
    model, x = Images(channels, blocks), struct(rows, size, size, 16)
    loss = lambda p, x: (model.apply(p, x) ** 2).mean()
    return f"residual network {channels} {blocks} {size} {rows}", loss, (initialised(model, x), x)


def recurrent(cell, width, length, rows):
    model, x = linen.RNN(cell(width)), struct(rows, length, width)
    loss = lambda p, x: (model.apply(p, x) ** 2).mean()
    return f"{cell.__name__} {width} {length} {rows}", loss, (initialised(model, x), x)


def layers(widths, rows):
    model, x = Layers(widths), struct(rows, widths[0])
    loss = lambda p, x: (model.apply(p, x) ** 2).mean()
    return f"perceptron {widths} {rows}", loss, (initialised(model, x), x)


def networks():
    """Losses of networks with the types of their parameters and data."""
    yield from (images(*row) for row in [(64, 1, 16, 4), (64, 2, 16, 8), (128, 1, 8, 8)])
    for cell in (linen.GRUCell, linen.LSTMCell, linen.SimpleCell):
        yield from (recurrent(cell, *row) for row in [(384, 8, 8), (4096, 5, 16)])
    yield from (
        layers(*row) for row in [((512, 512), 32), ((4096, 8192, 4096), 64), ((6144,) * 4, 16)]
    )


def transformers():
    for row in [(256, 1, 4, 32), (2048, 2, 4, 32), (4096, 2, 8, 64)]:
        name, loss, args = transformer(*row, types=True)
        yield f"{name} {' '.join(map(str, row))}", loss, args


def products():
    """Products, as einsum and convolutions write them."""
    einsum = lambda text: lambda *xs: jnp.einsum(text, *xs)
    rows = [
        ("ij,jk->ik", (64, 96), (96, 32)),
        ("bij,bjk->bik", (4, 32, 48), (4, 48, 16)),
        ("bhqd,bhkd->bhqk", (2, 4, 32, 64), (2, 4, 32, 64)),
        ("ij,kj,kl->il", (32, 48), (64, 48), (64, 24)),
        ("abc,cd->abd", (8, 16, 64), (64, 32)),
        ("i,j->ij", (64,), (128,)),
    ]
    for text, *shapes in rows:
        yield f"einsum {text}", einsum(text), tuple(struct(*shape) for shape in shapes)
    for stride, group in [(1, 1), (2, 1), (1, 4)]:
        convolve = lambda x, w, s=stride, g=group: lax.conv_general_dilated(
            x, w, (s, s), "VALID", feature_group_count=g
        )
        shapes = struct(4, 16, 14, 14), struct(32, 16 // group, 3, 3)
        yield f"convolution {stride} {group}", convolve, shapes


def divided(x, mesh, spec):
    """A type divided over a mesh as far as its sizes go."""
    sizes, given = dict(mesh.shape), list(spec)[: x.ndim]
    fits = [n if n and x.shape[i] % sizes[n] == 0 else None for i, n in enumerate(given)]
    return weft.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(mesh, P(*fits)))


def cases():
    """All programs: a name, a function, and its arguments or their types."""
    nets = [*networks(), *transformers()]
    for name, loss, args in nets:
        yield name, loss, args
        yield f"{name}, step", train_step(loss), args
    for name, function, args in products():
        yield name, function, args
        several = tuple(range(len(args)))
        summed = lambda *xs, f=function: (f(*xs) ** 2).sum()
        yield f"{name}, gradient", weft.grad(summed, argnums=several), args
    mesh = AbstractMesh((2, 2), ("data", "model"))
    for name, loss, (params, data) in nets:
        for how, spec in (("data", P()), ("model", P(None, "model"))):
            there = weft.tree.map(lambda x, s=spec: divided(x, mesh, s), params)
            rows = weft.tree.map(lambda x: divided(x, mesh, P("data")), data)
            yield f"{name}, step over 4 by {how}", train_step(loss), (there, rows)
    for name, (function, *args) in programs().items():
        yield name, function, tuple(args)
    yield from sampled(SAMPLES)


# --- counts ---------------------------------------------------------------------------------------


def counts(jaxpr, in_loop=False):
    """FLOPs by libtpu's rules, those of products and convolutions, and functions of elements."""
    total = np.zeros(3)
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        inner = [] if eqn.primitive.flops is not None else list(jaxprs_in_params(eqn.params))
        if inner:
            total += np.sum([counts(j, in_loop or name in ("scan", "while")) for j in inner], 0)
            continue
        found = equation_cost(eqn)
        flops, products = found.flops, 0.0
        if name == "dot_general":
            flops = products = flops + in_loop * sum(x.aval.size for x in eqn.invars)
        elif name == "conv_general_dilated":
            flops = products = convolution(eqn)
        total += flops, products, found.transcendentals
    return total


def convolution(eqn):
    """Twice the pairs of numbers that a convolution multiplies, without padding and holes."""
    params, (x, kernel) = eqn.params, [v.aval.shape for v in eqn.invars]
    numbers = params["dimension_numbers"]
    (batch, _, *places), (outs, ins, *taps) = numbers.lhs_spec, numbers.rhs_spec
    outer = [eqn.outvars[0].aval.shape[i] for i in numbers.out_spec[2:]]
    pairs = 1
    for n, k, m, stride, (low, _), hole, step in zip(
        [x[i] for i in places],
        [kernel[i] for i in taps],
        outer,
        params["window_strides"],
        params["padding"],
        params["lhs_dilation"],
        params["rhs_dilation"],
        strict=True,
    ):
        at = np.arange(m)[:, None] * stride + np.arange(k)[None, :] * step - low
        pairs *= int(((at >= 0) & (at % hole == 0) & (at // hole < n)).sum())
    count = x[batch] // params["batch_group_count"]
    return 2.0 * pairs * count * kernel[outs] * kernel[ins]


def repeats(args):
    """How many devices do the same: along axes of the mesh that divide neither data nor most
    parameters."""
    if not any(x.sharding for x in weft.tree.leaves(args)):
        return 1
    params, data = args
    leaves = weft.tree.leaves(params)
    divided = [(x.size, name) for x in leaves for name in x.sharding.spec if name]
    used = {name for x in weft.tree.leaves(data) for name in x.sharding.spec if name}
    for axis in {name for _, name in divided}:
        if 2 * sum(n for n, name in divided if name == axis) > sum(x.size for x in leaves):
            used.add(axis)
    return int(np.prod([n for name, n in data.sharding.mesh.shape.items() if name not in used]))


def is_compared(name, text, flops, products, functions):
    """Whether products make up nearly all of a program, and libtpu's count is understood."""
    if name.startswith(OTHERWISE):
        return False
    least = MOST if partitions(text) == 1 else MOST_OF_SEVERAL
    return flops > SMALLEST and products > least * (flops + EXPANDED * functions)


def written(part=(0, 1), with_large=True):
    """Name and text of programs, and what we count; ``part`` is which of how many parts."""
    for number, (name, function, args) in enumerate(cases()):
        if number % part[1] != part[0] or (name.startswith(LARGE) and not with_large):
            continue
        lowered = weft.jit(function).lower(*args)
        try:
            text = lowered.as_text("stablehlo")
        except NotImplementedError:
            continue
        found = counts(weft.make_jaxpr(function)(*args).jaxpr)
        yield name, text, (found * (repeats(args) if partitions(text) > 1 else 1)).tolist()


def partitions(text):
    return int((re.search(r"mhlo.num_partitions = (\d+)", text) or [0, 1])[1])


def compiled(there, text):
    """What libtpu says of a module: its costs, over all devices, and its memory."""
    parts = partitions(text)
    ids = [d.id for d in there.devices[:parts]]
    code = compile_ahead(there.api, there.handle, text, device_options(ids, parts > 1, text=text))
    costs = code.costs()
    return costs.get("flops", 0.0) * parts, costs.get("optimal_seconds", 0.0), code.memory()


def write(folder, part=(0, 1)):
    """Write modules, and what we count of them."""
    told = {}
    for number, (name, text, found) in enumerate(written(part)):
        (folder / f"{number}.mlir").write_text(text)
        told[str(number)] = {"name": name, "counts": found}
    (folder / "programs.json").write_text(json.dumps(told))
    print(f"{len(told)} programs")


def compile_all(folder, platform, machines):
    """Compile what was written; how many failed, or have counts that differ."""
    told = json.loads((folder / "programs.json").read_text())
    failed = apart = 0
    for machine in machines:
        there = Topology(platform, machine, {})
        print(f"{machine}: {len(there.devices)} {there.devices[0].device_kind}", flush=True)
        for number, row in told.items():
            text = (folder / f"{number}.mlir").read_text()
            began = time.perf_counter()
            try:
                flops, seconds, memory = compiled(there, text)
            except RuntimeError as error:
                failed += 1
                print(f"  {row['name']}: {str(error)[:300]}", flush=True)
                continue
            ours, compared = row["counts"][0], is_compared(row["name"], text, *row["counts"])
            ratio = flops / ours if ours else np.nan
            is_apart = compared and abs(ratio - 1) > TOLERANCE
            apart += is_apart
            print(
                f"  {row['name']}: {time.perf_counter() - began:.1f} s, {flops:.5g} FLOPs, ours"
                f" {ours:.5g}, ratio {ratio:.3f}{' APART' if is_apart else ''}"
                f"{' compared' if compared else ''}, expected {seconds * 1e6:.1f} us, code"
                f" {memory['generated_code_size_in_bytes']}, on {partitions(text)}",
                flush=True,
            )
    print(f"{failed} failed, {apart} counts are apart")
    return failed + apart


if __name__ == "__main__":
    task, where, *rest = sys.argv[1:]
    place = Path(where)
    place.mkdir(exist_ok=True)
    if task == "write":
        write(place, tuple(map(int, rest[0].split("/"))) if rest else (0, 1))
    else:
        sys.exit(compile_all(place, "tpu", rest))
