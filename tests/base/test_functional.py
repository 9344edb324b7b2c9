"""List helpers are checked, and caches let go of what they should."""

import gc
import re
import threading
from pathlib import Path

import pytest

import weft
from weft.base import functional as fn


def test_maps_and_zips_check_lengths():
    assert fn.safe_map(lambda a, b: a + b, [1, 2], (3, 4)) == [4, 6]
    assert fn.safe_map(str, iter([1])) == ["1"]
    assert fn.safe_zip([1], (x for x in [2])) == [(1, 2)]
    assert fn.safe_zip() == []
    with pytest.raises(ValueError, match="lengths 2, 1"):
        fn.safe_map(max, [1, 2], [1])
    with pytest.raises(ValueError, match="lengths 1, 2"):
        fn.safe_zip([1], [1, 2])


def test_splitting_and_merging():
    assert fn.unzip2([]) == ([], [])
    assert fn.split_list(range(4), [0, 3]) == [[], [0, 1, 2], [3]]
    with pytest.raises(ValueError, match="cannot cut"):
        fn.split_list([1], [2])
    flags = [True, False, False, True]
    off, on = fn.partition_list(flags, "abcd")
    assert (off, on) == (["b", "c"], ["a", "d"])
    assert fn.merge_lists(flags, off, on) == list("abcd")
    with pytest.raises(ValueError, match="2 false and 2 true"):
        fn.merge_lists(flags, on, off[:1])
    with pytest.raises(ValueError, match="lengths 4, 1"):
        fn.partition_list(flags, [1])


class Key:
    """Something that can be referenced weakly and is not equal to its twin."""


def test_weak_cache_keeps_nothing_alive():
    calls = []

    @fn.weakref_lru_cache
    def f(key, x, *, scale=1):
        calls.append(x)
        return x * scale

    key, twin = Key(), Key()
    assert [f(key, 2), f(key, 2), f(key, 2, scale=3), f(twin, 2)] == [2, 2, 6, 2]
    assert calls == [2, 2, 2]
    assert f.cache_len() == 3
    assert isinstance(f(key, 2.0), float), "arguments of different type are kept apart"
    del key
    gc.collect()
    assert f.cache_len() == 1
    fn.clear_all_caches()
    assert f.cache_len() == 0
    del twin
    gc.collect()
    assert f.cache_len() == 0


def test_weak_cache_is_bounded_and_knows_its_context():
    context = ["a"]
    f = fn.weakref_lru_cache(
        lambda key, n: "x" * n, max_bytes=100, size_of=len, context=lambda: context[0]
    )
    key = Key()
    for n in range(40, 44):
        f(key, n)
    assert f.cache_len() == 2
    f(key, 43)
    assert f.hits == 1
    context[0] = "b"
    f(key, 43)
    assert f.hits == 1


def test_lru_is_cleared_with_the_others():
    calls = []

    @fn.lru(maxsize=2)
    def f(x):
        calls.append(x)
        return x

    f(1), f(1)
    fn.clear_all_caches()
    f(1)
    assert calls == [1, 1]


def test_by_id():
    a, b = [], []
    assert fn.ById(a) == fn.ById(a) != fn.ById(b)
    assert len({fn.ById(a), fn.ById(a), fn.ById(b)}) == 2
    assert fn.is_hashable(()) and not fn.is_hashable(([],))


def test_kept_property_computes_once_and_takes_no_lock():
    calls = []

    class Owner:
        @fn.kept_property
        def value(self):
            """What is kept."""
            calls.append(self)
            return [len(calls)]

    owner, other = Owner(), Owner()
    assert owner.value is owner.value
    assert owner.value == [1] and other.value == [2]
    assert Owner.value.__doc__ == "What is kept."

    class Slow:
        @fn.kept_property
        def value(self):
            begun.set()
            assert go_on.wait(10)
            return object()

    # another object's value is computed meanwhile, and threads that meet get one value
    begun, go_on = threading.Event(), threading.Event()
    slow, got = Slow(), []
    threads = [threading.Thread(target=lambda: got.append(slow.value)) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert begun.wait(10)
    assert Owner().value == [3]
    go_on.set()
    for thread in threads:
        thread.join()
    assert got[0] is got[1] is got[2] is slow.value


def test_functools_cached_property_is_used_nowhere():
    """Up to Python 3.11 it has one lock for all objects, which a forked child may find held."""
    package = Path(weft.__file__).parent
    assert [
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"\bcached_property\b", line)
    ] == []


def test_weak_members_change_while_they_are_gone_through():
    members, kept = fn.WeakMembers(), [Key() for _ in range(3)]
    for x in kept:
        members.add(x)
    seen = []
    for x in members:
        seen.append(x)
        kept.append(Key())
        members.add(kept[-1])
    assert seen == kept[:3] and len(members) == 6
    del x, seen[:], kept[1:]
    gc.collect()
    assert list(members) == kept and len(members) == 1


def test_caches_registered_while_caches_are_cleared_are_kept():
    late = []

    class Cache:
        def __init__(self):
            self.cleared = 0

        def cache_clear(self):
            self.cleared += 1
            if not late:
                thread = threading.Thread(target=lambda: late.append(add()))
                thread.start()
                thread.join(10)

    def add():
        cache = Cache()
        fn.register_cache(cache)
        return cache

    first = add()
    fn.clear_all_caches()
    fn.clear_all_caches()
    assert (first.cleared, late[0].cleared) == (2, 1)
