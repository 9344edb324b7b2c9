"""Programs compiled for TPUs by libtpu, without a TPU, and their FLOPs against weft's count."""

import platform

import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.backends.pjrt import test_shardy
from tools import ahead_programs
from weft import lax
from weft.backends.pjrt import plugins
from weft.backends.pjrt.topology import Topology
from weft.base.knobs import use_shardy_partitioner
from weft.sharding import AbstractMesh, NamedSharding
from weft.sharding import PartitionSpec as P

if "tpu" not in plugins.known() or platform.machine() != "x86_64":
    reason = "libtpu is not installed: pip install '.[tpu]', for x86-64 only"
    pytest.skip(reason, allow_module_level=True)
DEVICES = {"v5e:2x2": 4, "v4:2x2x1": 8}  # a chip of v4 has two cores
PARTS, SAMPLED = 12, 8


def check(rows, machine):
    """Compile programs; those whose counts are understood have counts near weft's."""
    there = Topology("tpu", machine, {})
    assert len(there.devices) == DEVICES[machine]
    apart, compared = [], 0
    for name, text, counts in rows:
        if name in ahead_programs.REFUSED:
            with pytest.raises(weft.errors.JaxRuntimeError, match=ahead_programs.REFUSED[name]):
                ahead_programs.compiled(there, text)
            continue
        flops, _, memory = ahead_programs.compiled(there, text)
        assert memory["generated_code_size_in_bytes"] > 0
        if ahead_programs.is_compared(name, text, *counts):
            compared += 1
            if abs(flops / counts[0] - 1) > ahead_programs.TOLERANCE:
                apart.append(f"{machine}, {name}: {flops:.5g} FLOPs, ours {counts[0]:.5g}")
    assert not apart, "\n".join(apart)
    return compared


def test_a_sample_compiles_and_flops_agree():
    """A part of all programs, without the largest, for one kind of machine."""
    rows = list(ahead_programs.written((0, SAMPLED), with_large=False))
    assert len(rows) >= ahead_programs.COUNT // SAMPLED
    assert check(rows, next(iter(DEVICES))) >= 3


@pytest.mark.full
@pytest.mark.parametrize("machine", DEVICES)
@pytest.mark.parametrize("part", range(PARTS))
def test_programs_compile_and_flops_agree(part, machine):
    """Networks with their gradients, over one device and four, and samples of the laws."""
    rows = list(ahead_programs.written((part, PARTS)))
    assert len(rows) >= ahead_programs.COUNT // PARTS
    assert check(rows, machine) >= 2


def test_rules_of_libtpus_counts():
    """Padding and holes of convolutions, and products in loops, are counted to the percent."""
    found = {}
    wanted = ("convolution 2 1, gradient", "SimpleCell 384 8 8", "residual network 128 1 8 8")
    for name, function, args in ahead_programs.cases():
        if name in wanted:
            text = weft.jit(function).lower(*args).as_text("stablehlo")
            counts = ahead_programs.counts(weft.make_jaxpr(function)(*args).jaxpr)
            flops, _, _ = ahead_programs.compiled(Topology("tpu", "v5e:2x2", {}), text)
            found[name] = flops / counts[0]
    assert set(found) == set(wanted)
    assert max(abs(ratio - 1) for ratio in found.values()) < 0.01, found


def test_places_that_move_into_the_batch_count_more():
    """Of few images, columns are divided into parts with halos: 48 pairs with taps, not 36."""

    def gradient(g, w):
        convolve = lambda x: lax.conv_general_dilated(x, w, (1, 1), "VALID")
        return weft.vjp(convolve, jnp.zeros((4, 16, 14, 14)))[1](g)[0]

    struct = weft.ShapeDtypeStruct
    args = struct((4, 32, 12, 12), "float32"), struct((32, 16, 3, 3), "float32")
    made = weft.jit(gradient).lower(*args).compile(topology="v5e:2x2")
    assert "f32[14,32,2,16]" in made.as_text()
    products = 2 * 4 * 32 * 16 * (12 * 3) ** 2
    halos = 6 * 32 * 12 * 4 * 8 * 4 + 14 * 32 * 2 * 16
    assert made.cost_analysis()["flops"] == products * 48 / 36 + halos


def test_both_partitioners_divide_programs():
    """libtpu takes shardings of Shardy as of GSPMD, and the parts have the same work."""
    there = Topology("tpu", "v5e:2x2", {})
    name = "perceptron (512, 512) 32, step over 4 by model"
    step, args = next((f, args) for other, f, args in ahead_programs.cases() if other == name)
    divided = test_shardy.over(P("a", "b"))
    programs = [(step, args)]
    programs += [(f, (divided,)) for f in (test_shardy.collectives, test_shardy.constrained)]
    programs.append((test_shardy.nested, (test_shardy.over(P("a")),)))
    for f, args in programs:
        flops = []
        for with_shardy in (False, True):
            with use_shardy_partitioner(with_shardy):
                text = weft.jit(f).lower(*args).as_text()
            assert ("sdy.mesh" in text) == with_shardy
            flops.append(ahead_programs.compiled(there, text)[0])
        gspmd, shardy = flops
        if gspmd > ahead_programs.SMALLEST:
            assert abs(shardy / gspmd - 1) < 0.05, (f, flops)
        assert 0 < shardy <= 1.05 * gspmd, (f, flops)


def test_a_step_is_planned():
    """As a user would: by name of the machine, with its story, costs and bytes."""
    mesh = AbstractMesh((2, 2), ("data", "model"))
    x = weft.ShapeDtypeStruct((64, 128), "float32", sharding=NamedSharding(mesh, P("data")))
    w = weft.ShapeDtypeStruct((128, 64), "float32", sharding=NamedSharding(mesh, P(None, "model")))
    step = weft.jit(weft.grad(lambda w, x: (jnp.tanh(x @ w) ** 2).sum()), donate_argnums=0)
    made = step.lower(w, x).compile(topology="v5e:2x2")
    told = made.explain()
    for text in ("for v5e:2x2", "floating-point operations", "bytes read and written", "expected"):
        assert text in told, told
    assert made.cost_analysis()["flops"] > 1e5 and made.memory_analysis().alias_size_in_bytes > 0
    assert "HloModule" in made.as_text() and len(made.serialize()) > 1000
    assert np.prod(made.out_info.shape) == 128 * 64


def test_exports_for_tpus_compile():
    exported = weft.export.export(weft.jit(lambda x: jnp.sin(x) @ x.T), platforms=["tpu"])(
        weft.ShapeDtypeStruct((8, 16), "float32")
    )
    assert exported.platforms == ("tpu",)
    there = Topology("tpu", "v5e:1x1", {})
    flops, _, _ = ahead_programs.compiled(there, exported.mlir_module())
    assert flops >= 2 * 8 * 8 * 16
