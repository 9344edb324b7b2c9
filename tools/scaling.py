"""How long a step takes on many devices: a simulation from link figures that you set.

The step is partitioned for a mesh of any size; no such devices are needed. Its products and the
collectives of one device are counted, and `docs/scaling.md` says what each is taken to cost.

    python tools/scaling.py --data 512 --model 8 --per-node 8 --inside 2e-6,300e9,all-to-all \
        --between 5e-6,50e9,ring --flops 300e12

prints a step of a transformer. ``--check`` runs steps on 2, 4 and 8 host devices, predicts them by
those on one and two, and prints both; with ``--json FILE`` it writes them.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, field
from math import ceil, log2, prod
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

import weft
from weft.core.interpret import storage_dtype
from weft.core.jaxpr import jaxprs_in_params
from weft.core.sharding import AbstractMesh, NamedSharding, PartitionSpec
from weft.division.programs.partition import Partitioned, partition
from weft.division.specs import spec_of

TOPOLOGIES = ("all-to-all", "ring", "shared")


@dataclass(frozen=True)
class Link:
    """How devices reach each other: seconds a message, bytes a second, and the shape of the net.

    "all-to-all": each can send to any other at full bandwidth. "ring": each sends to the next.
    "shared": all work on one memory, whose bandwidth they share, as host devices do.
    """

    latency: float
    bandwidth: float
    topology: str = "all-to-all"

    def __post_init__(self) -> None:
        if self.topology not in TOPOLOGIES:
            raise ValueError(f"a topology is one of {TOPOLOGIES}, got {self.topology!r}")
        if self.bandwidth <= 0 or self.latency < 0:
            raise ValueError(f"a link needs a positive bandwidth and no negative latency: {self}")


@dataclass(frozen=True)
class Machine:
    """Nodes of ``per_node`` devices. ``flops`` and ``memory`` are a device's rates a second.

    The bandwidth of ``between`` is that of a node, which its devices share. ``overlap`` is the part
    of the computation behind which communication can hide.
    """

    per_node: int
    inside: Link
    between: Link
    flops: float
    memory: float = float("inf")
    overlap: float = 0.0


@dataclass
class Step:
    """What a step is predicted to take, in seconds; ``moves`` has a line for each collective."""

    devices: int
    compute: float
    moves: list[tuple[str, float]] = field(default_factory=list)
    overlap: float = 0.0

    @property
    def communication(self) -> float:
        return sum(seconds for _, seconds in self.moves)

    @property
    def seconds(self) -> float:
        return self.compute + max(0.0, self.communication - self.overlap * self.compute)

    def __str__(self) -> str:
        lines = [
            (
                f"{self.devices} devices: {_time(self.seconds)} a step, {_time(self.compute)} of it"
                f" computing, {_time(self.communication)} of communication"
            )
        ]
        lines += [f"    {_time(seconds):>9}  {text}" for text, seconds in self.moves]
        return "\n".join(lines)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1 or unit == "µs":
            return f"{seconds * scale:.3g} {unit}"
    raise AssertionError


# --- collectives ----------------------------------------------------------------------------------


def within(kind: str, size: float, n: int, link: Link) -> float:
    """Seconds of a collective among ``n`` devices over one kind of link.

    ``size`` is the bytes that a device gives: its part of an all-gather, the whole array of an
    all-reduce, a reduce-scatter or an all-to-all, the edge of a permute.
    """
    if n == 1:
        return 0.0
    a, b = link.latency, link.bandwidth
    if link.topology == "shared":
        read = {"permute": 1, "broadcast": 1}.get(kind, n)
        written = {"all-gather": n, "all-to-all": n, "permute": 1, "broadcast": 1}.get(kind, 1)
        return a + (read + written) * size / b
    ring = link.topology == "ring"
    steps = n - 1 if ring else ceil(log2(n))
    if kind == "all-gather":
        return steps * a + (n - 1) * size / b
    if kind == "reduce-scatter":
        return steps * a + (n - 1) / n * size / b
    if kind == "all-reduce":
        return within("reduce-scatter", size, n, link) + within("all-gather", size / n, n, link)
    if kind == "all-to-all":
        # on a ring a block goes half way round on average
        passed = size * (n - 1) / 2 if ring else size * (n - 1) / n
        return (n - 1) * a + passed / b
    if kind == "broadcast":
        return steps * a + size / b
    return a + size / b


def group(axes: Any, mesh: dict[Any, int], per_node: int) -> tuple[int, int]:
    """How many devices of a node and how many nodes take part in a collective over mesh axes.

    Devices are numbered in the order of the mesh, the last axis the fastest, and nodes have
    ``per_node`` neighbours each.
    """
    names = list(mesh)
    strides = {name: prod(mesh[m] for m in names[i + 1 :]) for i, name in enumerate(names)}
    members = np.zeros(1, np.int64)
    for axis in axes:
        members = (members[:, None] + np.arange(mesh[axis]) * strides[axis]).reshape(-1)
    nodes = len(np.unique(members // per_node))
    return len(members) // nodes, nodes


def collective(kind: str, size: float, axes: Any, mesh: dict[Any, int], machine: Machine) -> float:
    """Seconds of a collective over mesh axes: inside of nodes, and between them."""
    here, nodes = group(axes, mesh, machine.per_node)
    inside = machine.inside
    if nodes == 1:
        return within(kind, size, here, inside)
    share = machine.between.bandwidth / min(machine.per_node, prod(mesh.values()))
    between = Link(machine.between.latency, share, machine.between.topology)
    if kind == "all-reduce":
        return (
            within("reduce-scatter", size, here, inside)
            + within("all-reduce", size / here, nodes, between)
            + within("all-gather", size / here, here, inside)
        )
    if kind == "all-gather":
        return within(kind, size, nodes, between) + within(kind, size * nodes, here, inside)
    if kind == "reduce-scatter":
        return within(kind, size, here, inside) + within(kind, size / here, nodes, between)
    if kind == "all-to-all":
        return within(kind, size, here, inside) + within(kind, size, nodes, between)
    return within(kind, size, 2, between)


# --- computation ----------------------------------------------------------------------------------


def work(jaxpr: Any, times: int = 1) -> tuple[float, float]:
    """Operations of the products of a program, and bytes of their operands and results.

    What is elementwise is taken to be fused into them. Of branches the most expensive counts, and
    of loops whose number of rounds is not known one round.
    """
    flops = moved = 0.0
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        if name in ("dot_general", "conv_general_dilated"):
            avals = [x.aval for x in (*eqn.invars, *eqn.outvars)]
            flops += times * _operations(name, avals, eqn.params)
            moved += times * sum(prod(a.shape) * storage_dtype(a.dtype).itemsize for a in avals)
        rounds = eqn.params.get("length", 1) if name == "scan" else 1
        inner = [work(j, times * rounds) for j in jaxprs_in_params(eqn.params)]
        if name == "cond":
            inner = [max(inner)]
        flops += sum(f for f, _ in inner)
        moved += sum(m for _, m in inner)
    return flops, moved


def _operations(name: str, avals: Any, params: Any) -> float:
    lhs, rhs, out = (a.shape for a in avals)
    if name == "dot_general":
        (summed, _), _ = params["dimension_numbers"]
        return 2.0 * prod(out) * prod(lhs[d] for d in summed)
    kernel = params["dimension_numbers"].rhs_spec
    return 2.0 * prod(out) * prod(rhs[d] for d in kernel[1:])


# --- steps ----------------------------------------------------------------------------------------


def partitioned(fun: Any, args: Any, in_specs: Any, mesh: dict[str, int]) -> Partitioned:
    """The program of one device of a mesh, of which only the sizes are known.

    ``args`` are arrays or `ShapeDtypeStruct`; ``in_specs`` a tree of partition specs, or a prefix.
    """
    abstract = AbstractMesh(tuple(mesh.values()), tuple(mesh))
    closed = weft.make_jaxpr(fun)(*args)
    specs = weft.tree_util.tree_leaves(
        weft.tree_util.tree_map(
            lambda spec, part: weft.tree_util.tree_map(lambda _: spec, part),
            in_specs,
            tuple(args),
            is_leaf=lambda x: isinstance(x, PartitionSpec),
        ),
        is_leaf=lambda x: isinstance(x, PartitionSpec),
    )
    given = [
        spec_of(NamedSharding(abstract, spec), abstract, len(a.shape))
        for spec, a in zip(specs, closed.in_avals, strict=True)
    ]
    return partition(closed, abstract, given)


def given(move: Any) -> float:
    """The bytes that a device gives to a collective."""
    name, _, shape = move.operand.rpartition(" ")[2].partition("[")
    size = {"bool": 1, "bf16": 2}.get(name) or int("".join(filter(str.isdigit, name)) or 32) // 8
    return size * prod(int(n) for n in shape.rstrip("]").split(",") if n)


def predict(made: Partitioned, machine: Machine, compute: float | None = None) -> Step:
    """What a partitioned step takes; ``compute`` are a device's seconds, where they are known."""
    mesh = dict(made.mesh.shape)
    if compute is None:
        flops, moved = work(made.jaxpr.jaxpr)
        compute = max(flops / machine.flops, moved / machine.memory)
    step = Step(prod(mesh.values()), compute, overlap=machine.overlap)
    for move in made.moves:
        # devices that share memory run the whole program: only what is written by hand moves
        if machine.inside.topology == "shared" and move.why != "written by hand":
            continue
        size = given(move)
        seconds = max(move.times, 1) * collective(move.kind, size, move.axes, mesh, machine)
        step.moves.append((str(move), seconds))
    return step


# --- a step to look at ----------------------------------------------------------------------------


def transformer_step(layers: int, width: int, tokens: int, batch: int) -> tuple[Any, Any]:
    """A step of gradient descent on layers with attention, its arguments as shapes."""
    jnp = weft.numpy
    one = lambda *shape: weft.ShapeDtypeStruct((layers, *shape), np.float32)
    params = {
        "qkv": one(width, 3, width),
        "out": one(width, width),
        "up": one(width, 4 * width),
        "down": one(4 * width, width),
    }

    def layer(x: Any, p: Any) -> Any:
        q, k, v = jnp.moveaxis(jnp.einsum("btw,wcv->btcv", x, p["qkv"]), 2, 0)
        scores = weft.nn.softmax(jnp.einsum("btv,bsv->bts", q, k) / width**0.5)
        x = x + jnp.einsum("bts,bsv->btv", scores, v) @ p["out"]
        return x + weft.nn.gelu(x @ p["up"]) @ p["down"], None

    def loss(params: Any, x: Any) -> Any:
        return (weft.lax.scan(layer, x, params)[0] ** 2).mean()

    def step(params: Any, x: Any) -> Any:
        grads = weft.grad(loss)(params, x)
        return weft.tree_util.tree_map(lambda p, g: p - 0.1 * g, params, grads)

    return step, (params, weft.ShapeDtypeStruct((batch, tokens, width), np.float32))


def transformer_specs(data: str, model: str) -> Any:
    """Batches over one axis, the weights of a layer over another."""
    P = PartitionSpec
    weights = {
        "qkv": P(None, None, None, model),
        "out": P(None, model),
        "up": P(None, None, model),
        "down": P(None, model),
    }
    return weights, P(data)


# --- held against host devices --------------------------------------------------------------------


def best_seconds(calls: list[Any], rounds: int = 60) -> list[float]:
    """The best time of each call, made in turn, so that a busy moment hits all alike.

    It is the processor's time of one thread, which other processes do not add to.
    """
    found = [float("inf")] * len(calls)
    for call in calls:
        for _ in range(3):
            call()
    for _ in range(rounds):
        for i, call in enumerate(calls):
            begin = time.process_time()
            call()
            found[i] = min(found[i], time.process_time() - begin)
    return found


def host_programs(count: int) -> dict[str, tuple[Any, Partitioned]]:
    """Calls on some host devices, and their programs of one device."""
    jnp, P = weft.numpy, PartitionSpec
    mesh = weft.sharding.Mesh(np.array(weft.devices()[:count]), ("x",))
    rng = np.random.default_rng(0)

    def ready(fun: Any, args: Any, specs: Any) -> tuple[Any, Partitioned]:
        placed = [
            weft.device_put(a, NamedSharding(mesh, s)) for a, s in zip(args, specs, strict=True)
        ]
        jitted = weft.jit(fun)
        call = lambda: weft.block_until_ready(jitted(*placed))
        return call, partitioned(fun, args, tuple(specs), {"x": count})

    def summed(x: Any) -> Any:
        total = lambda part: weft.lax.psum(part, "x")
        return weft.shard_map(total, mesh=mesh, in_specs=P("x"), out_specs=P())(x)

    def step(w: Any, v: Any, x: Any) -> Any:
        loss = lambda w, v: ((jnp.tanh(x @ w) @ v) ** 2).mean()
        dw, dv = weft.grad(loss, (0, 1))(w, v)
        return w - 0.1 * dw, v - 0.1 * dv

    draw = lambda *shape: jnp.asarray(rng.standard_normal(shape).astype(np.float32))
    mlp = draw(512, 1024), draw(1024, 512), draw(512, 512)
    return {
        "psum of 16 MB a device": ready(summed, [draw(count << 22)], [P("x")]),
        "psum of 32 MB a device": ready(summed, [draw(count << 23)], [P("x")]),
        "psum of 4 kB a device": ready(summed, [draw(count << 10)], [P("x")]),
        "step of an MLP": ready(step, mlp, [P(), P(), P("x")]),
    }


def check() -> dict[str, Any]:
    """Steps on 2, 4 and 8 host devices: measured, and predicted from those on one and two."""
    counts = (1, 2, 4, 8)
    programs = {n: host_programs(n) for n in counts}
    calls = [(name, n) for name in programs[1] for n in counts]
    times = dict(zip(calls, best_seconds([programs[n][name][0] for name, n in calls]), strict=True))
    # the rate from a step on one device, latency and bandwidth from sums on two
    latency = times["psum of 4 kB a device", 2]
    bandwidth = 3 * 2**25 / (times["psum of 32 MB a device", 2] - latency)
    name = "step of an MLP"
    link = Link(latency, bandwidth, "shared")
    flops = work(programs[1][name][1].jaxpr.jaxpr)[0] / times[name, 1]
    rows = []
    for name, n in calls:
        if n == 1 or "kB" in name:
            continue
        # devices share the processor, so each has its part of the rate
        machine = Machine(8, link, link, flops / n)
        said = predict(programs[n][name][1], machine)
        rows.append([name, n, said.seconds, times[name, n]])
    figures = {"latency": latency, "bandwidth": bandwidth, "flops": flops}
    return {"figures": figures, "rows": rows}


def _link(text: str) -> Link:
    latency, bandwidth, *topology = text.split(",")
    return Link(float(latency), float(bandwidth), *topology)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=int, default=64, help="devices that divide the batch")
    parser.add_argument("--model", type=int, default=8, help="devices that divide the layers")
    parser.add_argument("--per-node", type=int, default=8)
    parser.add_argument("--inside", type=_link, default=Link(2e-6, 300e9))
    parser.add_argument("--between", type=_link, default=Link(5e-6, 50e9, "ring"))
    parser.add_argument("--flops", type=float, default=300e12)
    parser.add_argument("--overlap", type=float, default=0.0)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=4, help="sequences for each part of the data")
    parser.add_argument("--check", action="store_true", help="compare with host devices")
    parser.add_argument("--json", type=Path, help="where the comparison goes")
    options = parser.parse_args()
    if options.check:
        weft.config.update("jax_num_cpu_devices", 8)
        weft.config.update("weft_num_threads", 1)
        found = check()
        for name, n, said, seen in found["rows"]:
            print(
                f"{name}, {n}: {_time(said)} predicted, {_time(seen)} measured, {said / seen:.2f}"
            )
        if options.json:
            options.json.write_text(json.dumps(found, indent=1) + "\n")
        return
    machine = Machine(
        options.per_node, options.inside, options.between, options.flops, overlap=options.overlap
    )
    batch = options.batch * options.data
    fun, args = transformer_step(options.layers, options.width, options.tokens, batch)
    mesh = {"data": options.data, "model": options.model}
    print(predict(partitioned(fun, args, transformer_specs("data", "model"), mesh), machine))


if __name__ == "__main__":
    main()
