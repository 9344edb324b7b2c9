"""What goes to LLVM while operations meet arrays of new shapes."""

import contextlib

import weft
from weft.backends.cpu import target
from weft.backends.cpu.calls import native
from weft.backends.cpu.native import compiling
from weft.base import knobs
from weft.base.sizes import LEAST, plain, recording, size_named, writing
from weft.kernel.program import Place


@contextlib.contextmanager
def compiled_texts(monkeypatch):
    """The texts that go to LLVM; nothing is known from before, but for what operators learnt."""
    native.native()  # its own code is no matter here, and operators wait for it
    weft.clear_caches()
    found = []
    compile_texts = compiling.compile_texts

    def noted(texts):
        # without the pool's, made by a thread whenever there is work for it
        found.extend(text for text in texts if "@weft_run" not in text)
        return compile_texts(texts)

    monkeypatch.setattr(compiling, "compile_texts", noted)
    with knobs.scope(cache="off", eager_compile_share=1.0):  # nothing is left to the interpreter
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


def in_named_sizes(lowering):
    """A lowering whose code reads all sizes: those of its types have names meanwhile."""

    def lower(ins, outs, params):
        cpu, scope = target.Cpu(named=True), {}

        def sized(n):
            if n < LEAST:
                return n
            scope[f"n{n}"] = n
            return size_named(f"n{n}", scope)

        ins, outs = (
            [t._replace(shape=tuple(map(sized, t.shape))) for t in types] for types in (ins, outs)
        )
        with recording(), writing(cpu.token):
            made = lowering(ins, outs, params)
        return (
            None
            if made is None
            else made._replace(
                tasks=[_filled(cpu, task) for task in made.tasks],
                scratch=tuple(map(plain, made.scratch)),
            )
        )

    return lower


def _filled(cpu, task):
    places = [
        place if place.kind != "numbers" else place._replace(what=tuple(map(plain, place.what)))
        for place in task.places
    ]
    sized = cpu.sized(task.text, task.name, len(places))
    if sized is not None:
        places.append(Place("numbers", tuple(map(plain, sized[1]))))
    return task._replace(
        text=task.text if sized is None else sized[0],
        places=tuple(places),
        extent=plain(task.extent),
        chunk=plain(task.chunk),
    )
