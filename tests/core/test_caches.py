"""Caches of programs: owned, typed, kept with the program; and marks, which copies keep."""

import gc
import weakref

import pytest

import weft
from weft.base.functional import ById
from weft.core.caches import Mark, ProgramCache, SeparateCache, per_program
from weft.division.plain import plain
from weft.transforms.dce import dce_closed


@pytest.fixture
def program():
    return weft.make_jaxpr(lambda x: (x + 1.0, x * 2.0))(1.0)


def test_two_caches_of_one_program_have_no_entry_in_common(program):
    first: ProgramCache[str, int] = ProgramCache("first")
    second: ProgramCache[str, int] = ProgramCache("second")
    assert first.set(program, "key", 1) == 1
    assert second.get(program, "key") is None
    assert (first.values(program), second.values(program)) == ([1], [])
    assert first.pop(program, "key") == 1
    assert first.get(program, "key") is None


def test_a_value_is_made_once_even_if_it_is_none(program):
    cache: ProgramCache[int, None] = ProgramCache("nothing")
    made = []
    for key in (1, 1, 2):
        cache.made(program, key, lambda key=key: made.append(key))
    assert made == [1, 2]


def test_nothing_is_kept_of_a_call_that_fails(program):
    calls = []

    @per_program
    def failing(closed, key):
        calls.append(key)
        raise ValueError(key)

    for _ in range(2):
        with pytest.raises(ValueError, match="7"):
            failing(program, 7)
    assert calls == [7, 7]


def test_objects_in_keys_are_told_apart_by_identity(program):
    make = per_program(lambda closed, by: by.value)
    one, other = [], []
    assert make(program, ById(one)) is one
    assert make(program, ById(other)) is other


def test_values_go_with_their_program():
    program = weft.make_jaxpr(lambda x: x + 1.0)(1.0)
    cache: ProgramCache[None, object] = ProgramCache("cyclic")
    cache.set(program, None, [program])  # a value that refers to its program
    gone = weakref.ref(program)
    del program
    gc.collect()
    assert gone() is None


def test_a_separate_cache_leaves_nothing_with_the_program(program):
    before = dict(program._values_by_cache)
    cache: SeparateCache[str, int] = SeparateCache()
    cache.set(program, "key", 1)
    assert (cache.get(program, "key"), cache.values(program)) == (1, [1])
    assert cache.get(program.replace(), "key") is None
    assert program._values_by_cache == before


@pytest.mark.parametrize(
    "copy",
    [
        lambda p: p.replace(),
        lambda p: p.map_jaxpr(lambda jaxpr: jaxpr.replace()),
        plain,
        lambda p: dce_closed(p, [True, False])[0],
    ],
    ids=["replace", "map_jaxpr", "plain", "dce"],
)
def test_copies_keep_marks_and_no_values(copy, program):
    short = Mark("short")
    cache: ProgramCache[None, int] = ProgramCache("lengths")
    cache.set(program, None, 2)
    copied = copy(short.give(program))
    assert copied is not program
    assert short.on(copied)
    assert cache.get(copied, None) is None
