"""Draws by rejection, block by block, as stubs: who is drawn for again, and with which key.

Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). Numbers are those of
the references in prims.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.draws.threefry_stubs import threefry
from weft.kernel.kinds import f32, i32, i64, invoke, ptr, stack, static, u8, u32, u64, void

# Kinds that the stubs are given.
F: Any = f32
# Arrays of a block of samples of gamma distributions: keys, those of normal numbers, scales and
# factors; results, and whether they are accepted (0), or what is drawn again: all (1) or the normal
# number (2); the four words of the keys of an attempt; the same of elements that are drawn for
# again, their scales, what is drawn again, results, and which they are.
KEYS, SCALES, FACTORS, RESULT, STATES, FOUND, AGAIN, MORE, INDEX, ARRAYS = (
    *(0, 5, 6, 7, 8),
    *(9, 13, 19, 20, 21),
)


def spread(
    keys: ptr,
    low: i64,
    count: i64,
    first: ptr,
    second: ptr,
    counters: ptr,
    *,
    EACH: static,
    SHARED: static,
) -> void:
    """The words of the key, and the number among its draws, for each of a range of elements.

    Where all are of one key, its words and the number of the first draw.
    """
    j = low // EACH
    at = low % EACH
    if SHARED == 1:
        count = i64(1)
    for i in range(count):
        u32[first, i] = u32[keys, 2 * j]
        u32[second, i] = u32[keys, 2 * j + 1]
        u32[counters, i] = u32(at)
        at = at + 1
        if at == EACH:
            at = i64(0)
            j = j + 1


def joined(first: u32, second: u32) -> u64:
    return (u64(first) << 32) | u64(second)


# --- the gamma distribution -----------------------------------------------------------------------


def place(memory: ptr, i: i64, *, ROOM: static) -> ptr:
    """One of the arrays of a block."""
    return memory + 8 * i * ROOM


def again(memory: ptr, d: ptr, i: i64, at: u32, kept: i64) -> i64:
    """Put an element that was not accepted among those that are drawn for again."""
    if u8[place(memory, STATES), i] == 0:
        return kept
    for word in range(4):
        u32[place(memory, AGAIN + word), kept] = u32[place(memory, FOUND + word), i]
    F[place(memory, AGAIN + 4), kept] = F[d, i]
    u8[place(memory, AGAIN + 5), kept] = u8[place(memory, STATES), i]
    u32[place(memory, INDEX), kept] = at
    return kept + 1


def cubes(attempt: ptr, memory: ptr, count: i64) -> void:
    """Attempts until all elements of a block have a number.

    Most have one after the first; the others move to the front of arrays of their own, with the
    keys of that attempt, which the next begins with.
    """
    table = stack(96)
    result = place(memory, RESULT)
    states = place(memory, STATES)
    more = place(memory, MORE)
    for i in range(5):
        ptr[table, i] = place(memory, KEYS + i)
    ptr[table, 2] = place(memory, SCALES)
    ptr[table, 5] = place(memory, AGAIN + 5)
    ptr[table, 6] = result
    ptr[table, 7] = states
    for word in range(4):
        ptr[table, 8 + word] = place(memory, FOUND + word)
    for i in range(count):
        u8[place(memory, AGAIN + 5), i] = u8(0)
    invoke(void, attempt, table, 0, count)
    left = i64(0)
    for low in range(0, count, 8):
        if u64[states + low, 0] != 0:
            for i in range(low, min(low + 8, count)):
                left = again(memory, place(memory, SCALES), i, u32(i), left)
    ptr[table, 0] = place(memory, AGAIN)
    ptr[table, 1] = place(memory, AGAIN + 1)
    ptr[table, 2] = place(memory, AGAIN + 4)
    ptr[table, 3] = place(memory, AGAIN + 2)
    ptr[table, 4] = place(memory, AGAIN + 3)
    ptr[table, 6] = more
    while left > 0:
        invoke(void, attempt, table, 0, left)
        kept = i64(0)
        for i in range(left):
            at = u32[place(memory, INDEX), i]
            F[result, i64(at)] = F[more, i]
            kept = again(memory, place(memory, AGAIN + 4), i, at, kept)
        left = kept


def gamma(
    buffers: ptr, start: i64, stop: i64, *, ROOM: static, SIZE: static, EACH: static, SHARED: static
) -> void:
    """Samples, or their logarithms: keys, alphas, kernels that begin, attempt and end, result."""
    memory = stack(ARRAYS * 8 * ROOM)
    table = stack(64)
    low = start
    while low < stop:
        high = min(low + ROOM, stop)
        if SHARED == 1:
            high = min(high, (low // EACH + 1) * EACH)
        count = high - low
        for i in range(3):
            ptr[table, i] = place(memory, FOUND + i)
        spread(ptr[buffers, 0], low, count, ptr[table, 0], ptr[table, 1], ptr[table, 2])
        ptr[table, 3] = ptr[buffers, 1] + low * SIZE
        ptr[table, 4] = place(memory, KEYS)
        ptr[table, 5] = place(memory, KEYS + 1)
        ptr[table, 6] = place(memory, SCALES)
        ptr[table, 7] = place(memory, FACTORS)
        invoke(void, ptr[buffers, 2], table, 0, count)
        cubes(ptr[buffers, 3], memory, count)
        ptr[table, 0] = place(memory, SCALES)  # the first of them, and each
        ptr[table, 1] = place(memory, SCALES)
        ptr[table, 2] = place(memory, RESULT)
        ptr[table, 3] = place(memory, FACTORS)
        ptr[table, 4] = ptr[buffers, 5] + low * SIZE
        invoke(void, ptr[buffers, 4], table, 0, count)
        low = high


# --- counts ---------------------------------------------------------------------------------------
#
# Buffers: keys, two parameters, who waits, the kernels that wait and attempt, result, and for a
# single key what pieces of work tell each other: whether some do not wait, and turns.
#
# An attempt that is accepted takes the place of those before it for as long as some element of the
# key has none, as in JAX. So it is found out first how many turns that takes, and then the last
# attempts are found by going back from there.


def is_few(buffers: ptr, n: i64, *, MASKED: static) -> i64:
    """Whether a count is found by waiting."""
    if MASKED == 1:
        return i64(u8[ptr[buffers, 3], n])
    return i64(0) if F[ptr[buffers, 1], n] >= 10.0 else i64(1)


def key_of(buffers: ptr, n: i64, *, EACH: static) -> u64:
    j = n // EACH
    return joined(u32[ptr[buffers, 0], 2 * j], u32[ptr[buffers, 0], 2 * j + 1])


def put_key(table: ptr, at: i64, key: u64) -> void:
    u32[ptr[table, at], 0] = u32(key >> 32)
    u32[ptr[table, at + 1], 0] = u32(key)


def arrays(table: ptr, memory: ptr, *, ROOM: static) -> void:
    for i in range(11):
        ptr[table, i] = memory + i * 8 * ROOM


def wait(
    kernel: ptr, table: ptr, result: ptr, key: u64, count: i64, *, NEXT: static, MOST: static
) -> void:
    """Numbers added up until all elements have passed their bounds; those left move to the front.

    The table: two words of the key, where the elements are, two parameters, counts and sums; the
    same after a turn, and who is left; where results belong.
    """
    places = ptr[table, 2]
    a = ptr[table, 3]
    b = ptr[table, 4]
    index = ptr[table, 10]
    states = ptr[table, 9]
    left = count
    turns = i64(0)
    while left > 0 and turns < MOST:
        put_key(table, i64(0), threefry(key, u64(1 - NEXT)))
        key = threefry(key, u64(NEXT))
        invoke(void, kernel, table, 0, left)
        counts = ptr[table, 7]
        sums = ptr[table, 8]
        new_counts = ptr[table, 5]
        new_sums = ptr[table, 6]
        kept = i64(0)
        for i in range(left):
            at = u32[index, i]
            u32[index, kept] = at
            number = F[counts, i]
            F[result, i64(at)] = number - 1.0
            u32[places, kept] = u32[places, i]
            F[a, kept] = F[a, i]
            F[b, kept] = F[b, i]
            F[new_counts, kept] = number
            F[new_sums, kept] = F[sums, i]
            kept = kept + i64(i32[states, i])
        left = kept
        turns = turns + 1


def waits(
    buffers: ptr, start: i64, stop: i64, *, ROOM: static, SIZE: static, EACH: static, MASKED: static
) -> i64:
    """Counts found by waiting, for elements of one key; whether there are others."""
    memory = stack(11 * 8 * ROOM)
    table = stack(88)
    arrays(table, memory)
    places = ptr[table, 2]
    index = ptr[table, 10]
    first = ptr[table, 3]
    second = ptr[table, 4]
    counts = ptr[table, 5]
    sums = ptr[table, 6]
    others = i64(0)
    for low in range(start, stop, ROOM):
        a = ptr[buffers, 1] + low * SIZE
        b = ptr[buffers, 2] + low * SIZE
        result = ptr[buffers, 6] + low * SIZE
        base = low % EACH
        waiting = i64(0)
        for i in range(min(i64(ROOM), stop - low)):
            own = F[a, i]
            other = F[b, i]
            some = own > 0.0
            if MASKED == 1:
                some = other >= 0.0
            F[result, i] = F(-1.0)
            if MASKED == 0 and own == 0.0:
                F[result, i] = F(0.0)
            u32[index, waiting] = u32(i)
            u32[places, waiting] = u32(base + i)
            F[first, waiting] = own
            F[second, waiting] = other
            F[counts, waiting] = F(0.0)
            F[sums, waiting] = F(0.0)
            if is_few(buffers, low + i) == 0:
                others = i64(1)
            elif some:
                waiting = waiting + 1
        wait(ptr[buffers, 4], table, result, key_of(buffers, low), waiting)
    return others


def attempt(kernel: ptr, table: ptr, key: u64, count: i64) -> void:
    """One attempt for each element.

    The table: four words of keys, where the elements are, two parameters; what was found, and who
    is left; where results belong.
    """
    put_key(table, i64(0), threefry(key, u64(1)))
    put_key(table, i64(2), threefry(key, u64(2)))
    invoke(void, kernel, table, 0, count)


def sort_out(table: ptr, result: ptr, count: i64) -> i64:
    """Note what was found; elements that are left move to the front."""
    places = ptr[table, 4]
    a = ptr[table, 5]
    b = ptr[table, 6]
    found = ptr[table, 7]
    states = ptr[table, 8]
    index = ptr[table, 9]
    kept = i64(0)
    for i in range(count):
        at = u32[index, i]
        u32[index, kept] = at
        F[result, i64(at)] = F[found, i]
        u32[places, kept] = u32[places, i]
        F[a, kept] = F[a, i]
        F[b, kept] = F[b, i]
        kept = kept + i64(i32[states, i])
    return kept


def choose(
    buffers: ptr,
    table: ptr,
    low: i64,
    count: i64,
    all_: i64,
    *,
    SIZE: static,
    EACH: static,
    PLAIN: static,
    PLAIN_TRIALS: static,
) -> i64:
    """Fill the table with the elements of a block that do not wait, or with all.

    Those that wait take part in how many turns there are, with parameters of their own.
    """
    a = ptr[buffers, 1] + low * SIZE
    b = ptr[buffers, 2] + low * SIZE
    places = ptr[table, 4]
    first = ptr[table, 5]
    second = ptr[table, 6]
    index = ptr[table, 9]
    base = low % EACH
    found = i64(0)
    for i in range(count):
        u32[index, found] = u32(i)
        u32[places, found] = u32(base + i)
        F[first, found] = F[a, i]
        F[second, found] = F[b, i]
        if is_few(buffers, low + i) == 0:
            found = found + 1
        elif all_ == 1:
            F[first, found] = F(PLAIN)
            F[second, found] = F(PLAIN_TRIALS)
            found = found + 1
    return found


def turns_of(buffers: ptr, start: i64, stop: i64, *, ROOM: static, MOST: static) -> i64:
    """Turns until attempts for all elements of a range of one key were accepted."""
    memory = stack(11 * 8 * ROOM)
    table = stack(88)
    arrays(table, memory)
    most = i64(0)
    for low in range(start, stop, ROOM):
        left = choose(buffers, table, low, min(i64(ROOM), stop - low), i64(1))
        key = key_of(buffers, low)
        turns = i64(0)
        while left > 0 and turns < MOST:
            attempt(ptr[buffers, 5], table, key, left)
            left = sort_out(table, ptr[table, 10], left)
            key = threefry(key, u64(0))
            turns = turns + 1
        most = max(most, turns)
    return most


def go_back(
    buffers: ptr, start: i64, stop: i64, turns: i64, *, ROOM: static, SIZE: static, MOST: static
) -> void:
    """The last attempts that were accepted for elements of a range of one key."""
    memory = stack(11 * 8 * ROOM)
    table = stack(88)
    keys = stack(8 * MOST)
    arrays(table, memory)
    key = key_of(buffers, start)
    for turn in range(turns):
        u64[keys, turn] = key
        key = threefry(key, u64(0))
    for low in range(start, stop, ROOM):
        result = ptr[buffers, 6] + low * SIZE
        left = choose(buffers, table, low, min(i64(ROOM), stop - low), i64(0))
        turn = turns
        while left > 0 and turn > 0:
            turn = turn - 1
            attempt(ptr[buffers, 5], table, u64[keys, turn], left)
            left = sort_out(table, result, left)


def count_by_key(buffers: ptr, start: i64, stop: i64, *, EACH: static) -> void:
    """All counts of some keys."""
    for j in range(start, stop):
        if waits(buffers, j * EACH, (j + 1) * EACH) == 1:
            turns = turns_of(buffers, j * EACH, (j + 1) * EACH)
            go_back(buffers, j * EACH, (j + 1) * EACH, turns)


def most_of(numbers: ptr, *, PIECES: static) -> i64:
    most = i64(0)
    for i in range(PIECES):
        most = max(most, i64[numbers, i])
    return most


def count_few(buffers: ptr, start: i64, stop: i64, *, PIECE: static) -> void:
    """Counts of a single key found by waiting, and whether there are others."""
    i64[ptr[buffers, 7], start // PIECE] = waits(buffers, start, stop)


def count_turns(buffers: ptr, start: i64, stop: i64, *, PIECE: static) -> void:
    """Turns of a range of a single key, where any count is found by attempts."""
    turns = i64(0)
    if most_of(ptr[buffers, 7]) == 1:
        turns = turns_of(buffers, start, stop)
    i64[ptr[buffers, 8], start // PIECE] = turns


def count_many(buffers: ptr, start: i64, stop: i64, *, PIECE: static) -> void:
    """Counts of a single key found by attempts."""
    if i64[ptr[buffers, 7], start // PIECE] == 1:
        go_back(buffers, start, stop, most_of(ptr[buffers, 8]))
