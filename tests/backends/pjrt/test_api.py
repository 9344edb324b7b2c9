"""The PJRT C API by ctypes: versions, missing functions, errors, options, where plugins are."""

import ctypes
import sys

import pytest

import weft
from tests.backends.pjrt.stand_in import StandIn
from weft.backends.pjrt import header, hlo, plugins, proto
from weft.backends.pjrt.api import PjrtError, load
from weft.base.errors import JaxRuntimeError


def test_functions_have_the_places_of_the_header():
    # as the prototypes called them, and as the C header has them
    known = {
        "Error_Destroy": 0, "Plugin_Initialize": 3, "Event_Await": 8, "Client_Create": 10,
        "Client_Compile": 20, "Client_BufferFromHostBuffer": 22, "LoadedExecutable_Execute": 55,
        "Buffer_Destroy": 58, "Buffer_ToHostBuffer": 70, "TopologyDescription_Create": 82,
        "Compile": 89, "Executable_GetCompiledMemoryStats": 96,
    }  # fmt: skip
    assert {name: header.NUMBERS[name] for name in known} == known


def test_structs_have_the_sizes_of_the_header():
    sizes = {name: kind.SIZE for name, kind in header.ARGS.items()}
    assert sizes["Client_BufferFromHostBuffer"] == 120 and sizes["LoadedExecutable_Execute"] == 80
    assert sizes["Error_GetCode"] == 28 and sizes["Client_Create"] == 88
    assert sizes["Buffer_GetMemoryLayout"] == 100 and header.Layout.SIZE == 76
    assert ctypes.sizeof(header.NamedValue) == 56 and header.ExecuteOptions.SIZE == 112


def test_another_major_version_is_refused():
    with pytest.raises(PjrtError, match=r"has version 1\.2 of the PJRT API; weft supports 0"):
        StandIn(version=(1, 2)).open()


def test_an_older_plugin_lacks_functions_and_says_so():
    api = StandIn(version=(0, 30), functions=60).open("old")
    assert api.version == (0, 30) and api.has("Buffer_Destroy") and not api.has("Compile")
    with pytest.raises(PjrtError, match=r"'old' has no PJRT_Compile: .* is 0\.30") as caught:
        api.call("Compile")
    assert caught.value.code == "UNIMPLEMENTED"


def test_a_newer_plugin_has_more_than_is_known():
    api = StandIn(version=(0, 300), functions=200).open()
    assert api.version == (0, 300) and api.has("Compile")


def test_errors_have_their_code_and_message(plugin):
    plugin.refuse["Client_Compile"] = ("RESOURCE_EXHAUSTED", "no beads left")
    x = weft.device_put(1.0, plugin.places[0])
    with pytest.raises(JaxRuntimeError, match="RESOURCE_EXHAUSTED: no beads left") as caught:
        weft.jit(lambda x: x * 3.25)(x)
    assert caught.value.code == "RESOURCE_EXHAUSTED"
    del plugin.refuse["Client_Compile"]
    assert float(weft.jit(lambda x: x * 3.25)(x)) == 3.25
    assert not any(type(thing).__name__ == "Fail" for thing in plugin.objects.values())


def test_options_reach_the_client(plugin):
    assert plugin.options == {"speed": 3}
    with pytest.raises(TypeError, match="the option 'x'"):
        weft.backends.pjrt.api.Named({"x": object()})


def test_compile_options_name_devices_and_overrides():
    made = proto.compile_options([3, 5], spmd=True, overrides={"a": 1.5, "b": "x", "c": 2})
    build = dict(proto.fields(dict(proto.fields(made))[3]))
    assert (build[4], build[5], build[6]) == (1, 2, 1)
    ids = [v for f, v in proto.fields(build[9]) if f == 3]
    assert [proto.numbers(dict(proto.fields(v))[1]) for v in ids] == [[3], [5]]
    with pytest.raises(TypeError, match="'d'"):
        proto.compile_options([0], overrides={"d": None})


def test_a_library_that_is_no_plugin(tmp_path):
    with pytest.raises(PjrtError, match=r"NOT_FOUND: the plugin 'x' can't be loaded"):
        load(str(tmp_path / "none.so"), "x")
    name = next((n for n in ("libm.so.6", "libSystem.dylib") if _loads(n)), None)
    if name is not None:
        with pytest.raises(PjrtError, match="no function GetPjrtApi"):
            load(name, "x")


def _loads(name):
    try:
        return ctypes.CDLL(name) is not None
    except OSError:
        return False


# --- where plugins are ----------------------------------------------------------------------------


def test_plugins_of_the_environment(monkeypatch):
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", "one:/a/b.so, two:/c.so")
    known = plugins.known()
    assert known["one"].path == "/a/b.so" and known["two"].path == "/c.so"
    monkeypatch.setenv("PJRT_NAMES_AND_LIBRARY_PATHS", "one")
    with pytest.raises(ValueError, match="name:path"):
        plugins.known()


def test_installed_plugins_are_found_without_running_their_code(monkeypatch, tmp_path):
    room = tmp_path / "jax_plugins" / "xla_abacus13"
    room.mkdir(parents=True)
    (room / "__init__.py").write_text("raise ImportError('needs jax')")
    (room / "xla_abacus_plugin.so").write_bytes(b"")
    (room / "_helper.so").write_bytes(b"")
    own = tmp_path / "bead_pjrt"
    own.mkdir()
    (own / "__init__.py").write_text("raise ImportError('needs jax')")
    (own / "only.so").write_bytes(b"")
    told = tmp_path / "bead-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Name: bead\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[jax_plugins]\nbead = bead_pjrt\n")
    tpu = tmp_path / "libtpu"
    tpu.mkdir()
    (tpu / "__init__.py").write_text("raise ImportError('not looked at')")
    (tpu / "libtpu.so").write_bytes(b"")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("TPU_LIBRARY_PATH", raising=False)
    known = plugins.known()
    assert known["xla_abacus13"].path == str(room / "xla_abacus_plugin.so")
    assert known["bead"].path == str(own / "only.so")
    assert known["tpu"].path == str(tpu / "libtpu.so")


def test_platforms_without_a_plugin():
    with pytest.raises(RuntimeError, match="Unknown backend 'nowhere'"):
        weft.devices("nowhere")
    with pytest.raises(RuntimeError, match="no PJRT plugin is called 'nowhere'"):
        plugins.named("nowhere")


def test_memory_fractions_of_gpus(monkeypatch):
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", ".25")
    assert plugins._allocation("xla_cuda13") == {"preallocate": False, "memory_fraction": 0.25}
    assert plugins._allocation("tpu") == {}


# --- optimised programs ---------------------------------------------------------------------------


def test_hlo_modules_are_read():
    shape = proto.number(2, 11) + proto.packed(3, [2, 3]) + proto.block(5, proto.packed(1, [1, 0]))
    row = proto.block(1, b"p") + proto.block(2, b"parameter") + proto.block(3, shape)
    row += proto.number(35, 1)
    more = proto.block(1, b"f") + proto.block(2, b"fusion") + proto.block(3, shape)
    more += proto.number(35, 2) + proto.packed(36, [1]) + proto.packed(38, [7])
    part = proto.block(1, b"inner") + proto.number(5, 7)
    main = proto.block(1, b"main") + proto.number(5, 9) + proto.block(2, row) + proto.block(2, more)
    module = proto.block(1, b"m") + proto.block(3, main) + proto.block(3, part) + proto.number(6, 9)
    assert hlo.text_of("hlo", module) == (
        "HloModule m\n\n%inner {\n\n}\n\nENTRY %main {\n  %p = f32[2,3]{1,0} parameter()\n"
        "  %f = f32[2,3]{1,0} fusion(%p), calls=%inner\n}\n"
    )
    assert hlo.text_of("hlo_with_config", proto.block(1, module)) == hlo.text_of("hlo", module)
    assert list(hlo.instructions("hlo", module)) == ["fusion"]
    assert hlo.text_of("mlir", b"module {}") == "module {}"
