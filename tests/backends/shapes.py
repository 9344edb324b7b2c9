"""What goes to LLVM while operations meet arrays of new shapes."""

import contextlib

import weft
from weft.backends.cpu import target
from weft.backends.cpu.calls import native
from weft.backends.cpu.native import compiling
from weft.base import knobs


@contextlib.contextmanager
def compiled_texts(monkeypatch):
    """The texts that go to LLVM; nothing is known from before, but for what operators learnt."""
    native.native()  # its own code is no matter here, and operators wait for it
    weft.clear_caches()
    target._flat.clear()
    found = []
    compile_texts = compiling.compile_texts

    def noted(texts):
        # without the pool's, made by a thread whenever there is work for it
        found.extend(text for text in texts if "@weft_run" not in text)
        return compile_texts(texts)

    monkeypatch.setattr(compiling, "compile_texts", noted)
    with knobs.scope(cache="off"):
        yield found
    weft.clear_caches()


@contextlib.contextmanager
def all_general(monkeypatch):
    """All programs as those of operations outside of compiled functions."""
    monkeypatch.setattr(
        native, "is_general", lambda closed: "general" in native.generalise(closed)._memo
    )
    with knobs.scope(cache="off"):
        yield
