"""Work that needs a deep stack: done where there is one."""

import threading

import pytest

from weft.base import stacks


def in_thread(size: int, function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    before = threading.stack_size(size)
    try:
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    return found[0]


@pytest.mark.parametrize("size", [1 << 18, 1 << 22, 1 << 26])
def test_each_thread_is_told_its_own_stack(size: int) -> None:
    if stacks._functions() is None:
        pytest.skip("this system does not tell the size of a stack")
    # it may have one that a thread before it had, if that is no smaller
    assert in_thread(size, stacks.stack_bytes) >= size - (1 << 16)


def test_a_shallow_stack_is_left_for_a_deep_one() -> None:
    size = lambda: (threading.get_ident(), stacks.stack_bytes())
    name, found = in_thread(1 << 18, lambda: stacks.with_room(size))
    assert found >= stacks.MIN_STACK_BYTES or stacks._functions() is None
    mine = threading.get_ident()
    if stacks.stack_bytes() >= stacks.MIN_STACK_BYTES:
        assert stacks.with_room(size)[0] == mine != name


def test_an_error_is_the_callers() -> None:
    def fail() -> None:
        raise KeyError("deep")

    def caught() -> str:
        with pytest.raises(KeyError) as error:
            stacks.with_room(fail)
        return error.value.args[0]

    assert in_thread(1 << 18, caught) == "deep"
