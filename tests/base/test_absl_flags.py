"""Options as flags of absl. A small stand-in is used: absl is not among the tests' packages."""

import sys
from types import ModuleType, SimpleNamespace

import pytest

import weft
from weft.base import absl_flags


class Flags(dict):
    """What the tests need of ``absl.flags.FLAGS``."""

    def declare(self, kind):
        def declare(name, value, *rest):
            self[name] = SimpleNamespace(kind=kind, value=value, present=0, choices=rest[0])

        return declare

    def __call__(self, argv, known_only=False):
        for text in argv[1:]:
            name, _, value = text.removeprefix("--").partition("=")
            if name not in self and name.removeprefix("no") in self:
                name, value = name.removeprefix("no"), "false"
            flag = self[name]
            read = {"bool": lambda v: v != "false", "integer": int}.get(flag.kind, str)
            if flag.kind == "enum" and value not in flag.choices:
                raise ValueError(f"--{name}={value}")
            flag.value, flag.present = read(value), 1


@pytest.fixture
def absl(monkeypatch):
    package, flags, app = ModuleType("absl"), ModuleType("absl.flags"), ModuleType("absl.app")
    flags.FLAGS = Flags()
    for kind in ("bool", "enum", "integer", "float", "string"):
        setattr(flags, f"DEFINE_{kind}", flags.FLAGS.declare(kind))
    app.later = []
    app.call_after_init = app.later.append
    package.app, package.flags = app, flags
    for module in (package, flags, app):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(absl_flags._state, "parsed", False)
    names = ("jax_debug_nans", "jax_numpy_rank_promotion", "jax_enable_x64")
    before = {name: weft.config.read(name) for name in names}
    yield package
    for name, value in before.items():
        weft.config.update(name, value)


def test_flags_on_the_command_line_are_read(absl, monkeypatch):
    command = ["prog", "--jax_debug_nans", "--other=3", "--jax_numpy_rank_promotion=raise", "rest"]
    monkeypatch.setattr(sys, "argv", [*command, "--", "--jax_enable_x64"])
    weft.config.parse_flags_with_absl()
    assert weft.config.jax_debug_nans and weft.config.jax_numpy_rank_promotion == "raise"
    assert not weft.config.jax_enable_x64
    weft.config.update("jax_debug_nans", False)
    weft.config.parse_flags_with_absl()  # once is enough
    assert not weft.config.jax_debug_nans


def test_flags_are_set_when_absl_starts_the_program(absl):
    weft.config.config_with_absl()
    weft.config.config_with_absl()  # keeps what is declared
    absl.flags.FLAGS(["", "--jax_enable_x64=true"])
    assert not weft.config.jax_enable_x64
    for call in absl.app.later:
        call()
    assert weft.config.jax_enable_x64
    assert absl.flags.FLAGS["jax_numpy_rank_promotion"].kind == "enum"
    with pytest.raises(ValueError, match="rank_promotion=no"):
        absl.flags.FLAGS(["", "--jax_numpy_rank_promotion=no"])


def test_every_option_is_a_flag(absl):
    weft.config.config_with_absl()
    assert set(weft.config.values) == set(absl.flags.FLAGS)
