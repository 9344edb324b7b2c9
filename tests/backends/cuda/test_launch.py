"""The writer of launches of several parts: barriers between phases, parameters, shared memory."""

from operator import eq

import pytest

from tests.backends.cuda.test_join import check_assembly
from tests.backends.cuda.test_short_texts import f32, part_of
from weft.backends.cuda import ptx
from weft.backends.cuda.groups import Access
from weft.backends.cuda.loops import Grid
from weft.backends.cuda.text.launch import Launch
from weft.backends.cuda.text.loops import Writer
from weft.backends.cuda.text.render import writer_of

KINDS = {
    "aligned": (lambda: Launch(Grid(1, 64), eq, aligned=True), "@llvm.nvvm.barrier0"),
    "block": (lambda: Writer(Grid(1, 64), eq, 9, 1 << 16), "@meet"),
    "cluster": (lambda: Writer(Grid(8, 64, True), eq, 9, 1 << 16), "@cluster_barrier"),
    "grid": (lambda: Writer(Grid(132, 64), eq, 9, 1 << 16), "@grid_barrier"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_barriers_are_between_phases(kind):
    """Parts that need nothing of each other are a phase; one that reads what was written begins
    another, whatever barrier ends the one before."""
    make, word = KINDS[kind]
    launch = make()
    count = lambda: sum(f"{word}(" in line for line in launch.lines)
    launch.begin([Access(0, False), Access(1, True)])
    launch.begin([Access(0, False), Access(2, True)])
    assert count() == launch.barriers == 0
    launch.begin([Access(1, False), Access(3, True)])
    assert count() == launch.barriers == 1
    launch.begin([Access(2, False), Access(4, True)])  # which was before the barrier
    assert count() == 1
    launch.begin([Access(4, True)], "same", 5)
    launch.begin([Access(4, True)], "same", 5)  # parts of one kernel write different elements
    assert count() == launch.barriers == 2


def test_a_launch_of_parts():
    """Functions, parameters in the order of their use, shared memory, and a share of threads."""
    launch = Launch(Grid(1, 64), eq, aligned=True)
    launch.add("doubled", writer_of(part_of(lambda x: x * 2, f32(64))))
    launch.keep({"kept": 256})
    source, kept = launch.pointer(7), ptx.shared_address("kept")
    assert launch.pointer(7) == source
    with launch.first_threads(32):
        launch.call_function("doubled", [f"ptr {source}", f"ptr {kept}", "i32 0"])
    launch.meet()
    target = launch.pointer(3)
    first = launch.thread()

    def copy(at):
        x = launch.emit(f"getelementptr float, ptr {kept}, i32 {at}")
        x = launch.emit(f"load float, ptr {x}")
        y = launch.emit(f"getelementptr float, ptr {target}, i32 {at}")
        launch.line(f"store float {x}, ptr {y}")

    launch.counted(first, 32, 64, copy, "i32")
    launch.line("ret void")
    groups = [ptx.group(0), ptx.group(1)]
    module = launch.module(groups, False, 0, told=lambda slot: "readonly" * (slot == 7))
    main = module.function(ptx.NAME)
    assert [str(p) for p in main.parameters] == ["ptr readonly %a7", "ptr %a3"]
    assert [m.name for m in module.memory] == ["kept"]
    made = check_assembly(module)
    assert made.count("bar.sync") == 1 and ".b8 kept[256]" in made
