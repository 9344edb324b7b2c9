"""The simulation of steps on many devices: its arithmetic, and a recorded comparison."""

import json
from math import prod
from pathlib import Path

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tools import scaling
from tools.scaling import Link, Machine, collective, group, within
from weft import P

RECORD = json.loads((Path(__file__).parent / "data" / "scaling.json").read_text())
SWITCH, RING = Link(1.0, 10.0), Link(1.0, 10.0, "ring")


def test_collectives_inside_of_a_node():
    assert within("all-gather", 20, 8, SWITCH) == 3 + 14
    assert within("all-gather", 20, 8, RING) == 7 + 14
    assert within("reduce-scatter", 80, 8, SWITCH) == 3 + 7
    assert within("all-reduce", 80, 8, SWITCH) == 2 * (3 + 7)
    assert within("all-to-all", 80, 8, SWITCH) == 7 + 7
    assert within("all-to-all", 80, 8, RING) == 7 + 28
    assert within("permute", 80, 8, RING) == 1 + 8
    assert within("all-reduce", 80, 1, RING) == 0
    assert within("all-reduce", 80, 4, Link(1.0, 10.0, "shared")) == 1 + 5 * 8


def test_which_devices_take_part():
    mesh = {"data": 16, "model": 8}
    assert group(("model",), mesh, 8) == (8, 1)
    assert group(("data",), mesh, 8) == (1, 16)
    assert group(("data", "model"), mesh, 8) == (8, 16)
    assert group(("model",), mesh, 4) == (4, 2)


def test_collectives_between_nodes():
    machine = Machine(4, SWITCH, Link(3.0, 40.0), flops=1.0)
    mesh = {"x": 16}
    inside = within("reduce-scatter", 320, 4, SWITCH) + within("all-gather", 80, 4, SWITCH)
    between = within("all-reduce", 80, 4, Link(3.0, 10.0))
    assert collective("all-reduce", 320, ("x",), mesh, machine) == inside + between


def test_a_step_is_its_products_and_collectives():
    shape = weft.ShapeDtypeStruct
    args = shape((32, 64), np.float32), shape((1024, 32), np.float32)
    step = lambda w, x: weft.grad(lambda w: ((x @ w) ** 2).sum())(w)
    made = scaling.partitioned(step, args, (P(), P("x")), {"x": 256})
    machine = Machine(256, Link(0.0, 1.0), SWITCH, flops=1.0)
    said = scaling.predict(made, machine)
    assert said.compute == 2 * (2 * 4 * 32 * 64)
    assert said.communication == 2 * (255 / 256) * 32 * 64 * 4
    assert said.seconds == said.compute + said.communication
    hidden = Machine(256, Link(0.0, 1.0), SWITCH, flops=1.0, overlap=1.0)
    assert scaling.predict(made, hidden).seconds == said.compute


def test_loops_count_their_rounds():
    shape = weft.ShapeDtypeStruct
    args = shape((8, 16), np.float32), shape((3, 16, 16), np.float32)
    scanned = lambda c, ws: weft.lax.scan(lambda c, w: (jnp.tanh(c @ w), None), c, ws)[0]
    made = scaling.partitioned(scanned, args, (P(None, "x"), P(None, "x")), {"x": 4})
    assert scaling.work(made.jaxpr.jaxpr)[0] == 3 * 2 * 8 * 16 * 4
    assert [(m.kind, m.times) for m in made.moves] == [("reduce-scatter", 3)]


@pytest.mark.parametrize("devices", [8, 4096])
def test_a_transformer_on_many_devices(devices):
    fun, args = scaling.transformer_step(4, 256, 64, devices // 8)
    specs = scaling.transformer_specs("data", "model")
    made = scaling.partitioned(fun, args, specs, {"data": devices // 8, "model": 8})
    said = scaling.predict(made, Machine(8, SWITCH, RING, flops=1e3))
    assert said.devices == devices == prod(made.mesh.shape.values())
    over_data = [(m.kind, m.times) for m in made.moves if "data" in m.axes]
    # gradients of a layer are summed together, in every round
    assert over_data == ([("all-reduce", 4)] if devices > 8 else [])


@pytest.mark.parametrize("row", RECORD["rows"], ids=lambda r: f"{r[0]}, {r[1]}")
def test_predictions_are_within_a_quarter_of_what_was_measured(row):
    name, devices, said, seen = row
    assert abs(said / seen - 1) <= 0.25
    figures = RECORD["figures"]
    if name.startswith("psum"):
        size = float(name.split()[2]) * 2**20
        again = figures["latency"] + (devices + 1) * size / figures["bandwidth"]
    else:  # five products
        again = 5 * 2 * 512 * 512 * 1024 / figures["flops"]
    assert said == pytest.approx(again)
