"""What goes to LLVM while operations meet arrays of new shapes."""

import contextlib

import weft
from weft.backends.cpu.calls import native
from weft.backends.cpu.sizes import Written, at_hand
from weft.backends.llvm.native import compiling
from weft.base import knobs
from weft.base.sizes import recording
from weft.runtime import compiling as policy


@contextlib.contextmanager
def compiled_texts(monkeypatch):
    """The texts that go to LLVM; nothing is known from before, but for what operators learnt."""
    native.native()  # its own code is no matter here, and operators wait for it
    weft.clear_caches()
    found = []
    compile_parts = compiling.compile_parts

    def noted(parts):
        # without the pool's, made by a thread whenever there is work for it
        found.extend(str(part) for part in parts if "weft_run" not in part.names)
        return compile_parts(parts)

    monkeypatch.setattr(compiling, "compile_parts", noted)
    with knobs.scope(cache="off", eager_compile_share=1.0):  # nothing is left to the interpreter
        yield found
    weft.clear_caches()


@contextlib.contextmanager
def all_general(monkeypatch):
    """All programs as those of operations outside of compiled functions."""
    general = lambda closed: policy.GENERAL.on(policy.generalise(closed))
    monkeypatch.setattr(policy, "is_general", general)
    monkeypatch.setattr(native, "is_general", general)
    with knobs.scope(cache="off"):
        yield


def in_named_sizes(lowering):
    """A lowering whose code reads all sizes: those of its types have names meanwhile."""

    def lower(ins, outs, params):
        written = Written()
        ins, outs = (
            [t._replace(shape=written.named(t.shape)) for t in types] for types in (ins, outs)
        )
        with recording(), written.writing():
            made = lowering(ins, outs, params)
        return None if made is None else at_hand(written.finished(made))

    return lower
