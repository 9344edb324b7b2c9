"""Knobs: scopes, threads, the interned key, names, environment, and the page about them."""

import logging
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import weft
from tools import knobs_doc
from weft.base import knobs
from weft.base.knobs import config
from weft.extend.core import Primitive
from weft.runtime import guards


@pytest.fixture(autouse=True)
def _restored():
    before = {k: k.value for k in knobs.registry()}
    yield
    for knob, value in before.items():
        if knob.value != value:
            knob.set_global(value)


def in_thread(f):
    out = []
    thread = threading.Thread(target=lambda: out.append(f()))
    thread.start()
    thread.join()
    return out[0]


def test_scopes_nest_and_end():
    assert knobs.enable_x64.value is False
    with knobs.enable_x64(True):
        assert config.jax_enable_x64 and config.x64_enabled and knobs.thread.enable_x64
        with knobs.enable_x64(False):
            assert not config.enable_x64
        assert config.weft_enable_x64
    assert not config.enable_x64
    with pytest.raises(KeyError), knobs.enable_x64():
        raise KeyError
    assert not config.enable_x64


def test_a_setting_may_be_entered_again_and_decorates():
    setting = knobs.debug_nans(True)
    with setting, setting:
        assert knobs.debug_nans.value
    assert not knobs.debug_nans.value

    @setting
    def f():
        "Doc."
        return knobs.debug_nans.value

    assert f() and f.__doc__ == "Doc." and not knobs.debug_nans.value


def test_a_scope_is_of_one_thread_and_an_update_of_all():
    with knobs.enable_x64(True):
        assert in_thread(lambda: knobs.enable_x64.value) is False
        ready, go, seen = threading.Event(), threading.Event(), []

        def work():
            seen.append(knobs.enable_x64.value)
            with knobs.debug_nans(True):
                ready.set()
                go.wait()
                seen.append((knobs.enable_x64.value, knobs.debug_nans.value))
                seen.append(knobs.context_key())

        thread = threading.Thread(target=work)
        thread.start()
        ready.wait()
        config.update("jax_enable_x64", True)
        config.update("jax_debug_nans", False)
        go.set()
        thread.join()
        assert seen[:2] == [False, (True, True)]
        with knobs.debug_nans(True):
            assert seen[2] is knobs.context_key()
    assert knobs.enable_x64.value, "an update inside a scope holds after it"


def test_equal_values_give_the_same_key():
    base = knobs.context_key()
    with knobs.enable_x64(True):
        inside = knobs.context_key()
        assert inside is not base and "enable_x64=True" in repr(inside)
        assert in_thread(knobs.context_key) is base

        def other():
            with knobs.enable_x64(True):
                return knobs.context_key()

        assert in_thread(other) is inside
    assert knobs.context_key() is base
    with knobs.log_compiles(True):
        assert knobs.context_key() is base
    config.update("jax_enable_x64", True)
    assert knobs.context_key() is inside
    config.update("jax_enable_x64", False)
    assert knobs.context_key() is base


def test_names():
    for name in ("jax_numpy_rank_promotion", "weft_numpy_rank_promotion", "numpy_rank_promotion"):
        config.update(name, "raise")
        assert getattr(config, name) == "raise"
        config.update(name, "allow")
    with pytest.raises(AttributeError, match="did you mean enable_x64"):
        config.update("jax_enable_x46", True)
    with pytest.raises(AttributeError, match="no option 'jax_zzzzzz'"):
        config.jax_zzzzzz
    with pytest.raises(AttributeError, match="write config"):
        config.jax_enable_x64 = True
    assert config.values["jax_enable_x64"] is False
    assert config.values["weft_backend"] in ("reference", "native")
    assert "jax_debug_nans" in dir(config)


@pytest.mark.parametrize(
    ("name", "value", "error", "text"),
    [
        ("numpy_rank_promotion", "no", ValueError, "'allow', 'warn', 'raise'; got 'no'"),
        ("numpy_rank_promotion", 3, ValueError, "got 3 of type int"),
        ("enable_x64", "perhaps", ValueError, "True or False"),
        ("enable_x64", [], TypeError, "type list"),
        ("random_seed_offset", "one", ValueError, "an integer"),
        ("default_device", 3, ValueError, "a device, a platform's name, None"),
        ("compilation_cache_dir", 3, ValueError, "a string, None"),
        ("debug", 8, ValueError, "0, 1, 2, 3, 4, 5, 6, 7"),
    ],
)
def test_wrong_values(name, value, error, text):
    before = config.read(name)
    with pytest.raises(error, match=text):
        config.update(name, value)
    with pytest.raises(error, match=text):
        knobs.find(name)(value)
    assert config.read(name) == before


def test_values_that_are_understood():
    config.update("jax_enable_x64", "yes")
    assert config.enable_x64 is True
    config.update("jax_enable_x64", 0)
    assert config.enable_x64 is False
    config.update("jax_persistent_cache_min_compile_time_secs", 2)
    assert config.persistent_cache_min_compile_time_secs == 2.0
    with knobs.default_matmul_precision(None), knobs.default_device("cpu"):
        pass
    with pytest.raises(TypeError, match="needs a value"):
        knobs.default_matmul_precision()
    with pytest.raises(TypeError, match=r"enable_x64\.value"):
        bool(knobs.enable_x64)


def test_one_knob_may_cover_others():
    with knobs.transfer_guard("disallow"):
        assert knobs.transfer_guard_host_to_device.value == "disallow"
        with knobs.transfer_guard_device_to_host("allow"):
            assert knobs.transfer_guard_device_to_host.value == "allow"
    assert knobs.transfer_guard_host_to_device.value is None
    config.update("jax_transfer_guard", "log")
    assert config.jax_transfer_guard_device_to_device == "log"


def test_updates_are_told_and_may_be_refused():
    def refuse(value):
        raise RuntimeError("too late")

    told, before = knobs.num_cpu_devices.on_update, config.jax_num_cpu_devices
    told.insert(0, refuse)
    try:
        with pytest.raises(RuntimeError, match="too late"):
            config.update("jax_num_cpu_devices", 4)
        assert config.jax_num_cpu_devices == before
    finally:
        told.remove(refuse)


def test_user_context_is_in_the_key():
    context = knobs.make_user_context("train")
    base = knobs.context_key()
    with context("test"):
        assert context.value == "test" and knobs.context_key() is not base
    assert context.value == "train" and knobs.context_key() is base
    assert in_thread(lambda: context.value) == "train"
    with pytest.raises(TypeError, match="unhashable"):
        context([])


def run(code, **env):
    environment = {**os.environ, **env}
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )


def test_environment():
    code = "from weft.base.knobs import config as c; print(c.enable_x64, c.debug, c.num_threads)"
    assert run(code, JAX_ENABLE_X64="1", WEFT_DEBUG="3").stdout == "True 3 None\n"
    result = run(code, JAX_ENABLE_X64="1", WEFT_ENABLE_X64="off", WEFT_NUM_THREADS="2")
    assert result.stdout == "False 0 2\n"
    failed = run(code, JAX_ENABLE_X64="perhaps")
    assert "JAX_ENABLE_X64: enable_x64 takes True or False; got 'perhaps'" in failed.stderr
    assert "WEFT_DEBUG: debug takes 0" in run(code, WEFT_DEBUG="9").stderr


def test_page_is_current():
    assert knobs_doc.PAGE.read_text(encoding="utf-8") == knobs_doc.render(), (
        "run python tools/knobs_doc.py"
    )


def test_global_values_of_knobs_and_contexts():
    promotion = weft.numpy_rank_promotion
    with promotion("raise"):
        assert promotion.get_global() == "allow" and promotion.value == "raise"
    promotion.set_global("warn")
    try:
        assert promotion.get_global() == promotion.value == "warn"
        with pytest.raises(ValueError, match="takes"):
            promotion.set_global("nope")
    finally:
        promotion.set_global("allow")
    phase = weft.make_user_context()
    assert phase.get_global() is None
    phase.set_global(3)
    with phase(5):
        assert phase.value == 5 and phase.get_global() == 3
    assert phase.value == 3
    with pytest.raises(TypeError, match="unhashable"):
        phase.set_global([])


def test_devices_in_use_keep_their_number():
    weft.devices()
    before = weft.config.jax_num_cpu_devices
    with pytest.raises(RuntimeError, match="num_cpu_devices cannot become 7"):
        weft.config.update("jax_num_cpu_devices", 7)
    weft.config.update("jax_num_cpu_devices", before)
    assert weft.config.jax_num_cpu_devices == before


# --- knobs are honest -----------------------------------------------------------------------------


def test_every_knob_with_an_effect_is_read():
    """A knob that nothing reads says so: "accepted for JAX, no effect"."""
    folder = Path(weft.__file__).parent
    listed = {folder / "base" / "knobs.py", folder / "__init__.py"}
    text = "\n".join(p.read_text("utf-8") for p in folder.rglob("*.py") if p not in listed)
    covered = {k for knob in knobs.registry() for k in ([knob] if knob.covers else [])}
    for knob in knobs.registry():
        if not knob.doc:  # of a user's context
            continue
        if knob.effect and knob not in covered:
            read = re.search(rf"\b(thread|_?knobs|knob|config)\.{knob.name}\b", text)
            assert read, f"nothing reads {knob.name}"
        elif not knob.effect:
            assert knob.doc.startswith("Accepted for JAX, no effect. ")
            assert not knob.in_key, f"{knob.name} has no effect but makes functions trace again"


def test_logging_level_and_modules():
    logging_level, modules = knobs.logging_level, knobs.debug_log_modules
    try:
        logging_level.set_global("INFO")
        assert logging.getLogger("weft").level == logging.INFO
        modules.set_global("weft.core, weft.api")
        assert logging.getLogger("weft.core").isEnabledFor(logging.DEBUG)
        modules.set_global("")
        assert not logging.getLogger("weft.core").isEnabledFor(logging.DEBUG)
    finally:
        modules.set_global("")
        logging_level.set_global("NOTSET")


def test_captured_constants_are_reported():
    big = weft.numpy.ones(1000)
    with knobs.captured_constants_warn_bytes(100):
        with pytest.warns(UserWarning, match="closes over 4,000 bytes") as seen:
            weft.jit(lambda x: x + big)(1.0)
        assert seen[0].filename == __file__
        with knobs.captured_constants_report_frames(1):
            with pytest.warns(
                UserWarning, match=r"float32\[1000\], 4,000 bytes, read at .*test_knobs"
            ):
                weft.jit(lambda x: x * big)(1.0)
    weft.jit(lambda x: x - big)(1.0)  # warnings are errors here


def test_dump_ir_to(tmp_path):
    def doubled(x):
        return 2 * x

    with knobs.scope(dump_ir_to=str(tmp_path), dump_ir_modes="jaxpr, stablehlo"):
        weft.jit(doubled)(1.0)
    names = sorted(p.name.split("_", 2)[2] for p in tmp_path.iterdir())
    assert names == ["jit_doubled.jaxpr", "jit_doubled.mlir"]
    texts = {p.suffix: p.read_text() for p in tmp_path.iterdir()}
    assert "mul" in texts[".jaxpr"] and "stablehlo.multiply" in texts[".mlir"]
    with knobs.scope(dump_ir_to=str(tmp_path), dump_ir_modes="hex"):
        with pytest.raises(ValueError, match="takes 'jaxpr' and 'stablehlo'"):
            weft.jit(lambda x: x)(1.0)


def test_enable_checks_finds_ill_typed_programs():
    """A rule that gives another type when it is asked again is found; without the knob it isn't."""
    shapes = iter([(), (2,), ()])
    unsteady = Primitive("unsteady")
    unsteady.def_abstract_eval(lambda x: x.update(shape=next(shapes)))
    with knobs.enable_checks(True), pytest.raises(weft.errors.JaxprTypeError, match="unsteady"):
        weft.make_jaxpr(lambda x: unsteady.bind(x))(1.0)
    weft.make_jaxpr(lambda x: unsteady.bind(x))(1.0)


def test_copies_from_a_device_to_the_host_are_guarded():
    """A device with memory of its own asks before it copies; the CPU's arrays are here already."""
    with weft.transfer_guard_device_to_host("disallow"):
        weft.device_get(weft.numpy.ones(2))
        with pytest.raises(weft.errors.JaxRuntimeError, match=r"float32\[2\] is copied"):
            guards.to_host("float32", (2,))
        with guards.getting():
            guards.to_host("float32", (2,))
    with weft.transfer_guard_device_to_host("disallow_explicit"), guards.getting():
        with pytest.raises(weft.errors.JaxRuntimeError):
            guards.to_host("float32", (2,))
    guards.to_host("float32", (2,))
