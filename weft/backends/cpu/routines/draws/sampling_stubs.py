"""Draws by rejection, block by block, as stubs: who is drawn for again, and with which key.

Marsaglia and Tsang, "A simple method for generating gamma variables" (2000). Numbers are those of
the references in prims.
"""

from __future__ import annotations

from typing import Any

from weft.backends.cpu.routines.draws.threefry_stubs import threefry
from weft.kernel.kinds import bits, f32, i32, i64, invoke, ptr, stack, u8, u32, u64, void

# Names that stubs are given; here so that they can be written.
F: Any = f32
W: Any = u32
LOG: Any = None
ROOT: Any = None
ERF_INV: Any = None
ROOM = SIZE = EACH = SHIFT = ONE = SHARED = LOGS = NEXT = MASKED = MOST = PIECE = PIECES = 0
LOW = SPAN = THIRD = ROOT_TWO = SQUEEZE = PLAIN = PLAIN_TRIALS = 0.0


def spread(keys: ptr, low: i64, count: i64, first: ptr, second: ptr, counters: ptr) -> void:
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


def uniform(key: u64) -> F:
    """A number from 0 to 1."""
    found = threefry(key, u64(0))
    raw = W(found)
    if SIZE == 4:
        raw = W(found) ^ W(found >> 32)
    return bits(F, (raw >> SHIFT) | ONE) - 1.0


def normal(key: u64) -> F:
    """A number of the normal distribution."""
    x = uniform(key) * SPAN + LOW
    return ROOT_TWO * ERF_INV(max(x, F(LOW)))


def cube(key: u64, c: F, d: F) -> F:
    """The first (1 + c x)**3 that is accepted, where the first x of the key is not."""
    found = F(1.0)
    inner = threefry(threefry(key, u64(1)), u64(0))
    while d == d:
        x = F(0.0)
        root = F(0.0)
        while True:
            x = normal(threefry(inner, u64(1)))
            root = x * c + 1.0
            if root <= 0.0:
                inner = threefry(inner, u64(0))
            else:
                break
        square = x * x
        found = root * root * root
        u = uniform(threefry(key, u64(2)))
        if u < 1.0 - SQUEEZE * (square * square):
            break
        slope = d * ((1.0 - found) + LOG(found))
        if LOG(u) < square * 0.5 + slope:
            break
        if slope != slope:
            break
        key = threefry(key, u64(0))
        inner = threefry(key, u64(1))
    return found


def cubes(attempt: ptr, table: ptr, spare: ptr, result: ptr, count: i64) -> void:
    """Attempts until all elements of a block have a number.

    Most have one after the first; the others move to the front of arrays of their own, with the
    keys of that attempt, which the next begins with.
    """
    invoke(void, attempt, table, 0, count)
    states = ptr[table, 4]
    left = i64(0)
    for low in range(0, count, 8):
        if u64[states + low, 0] != 0:
            for i in range(low, min(low + 8, count)):
                if u8[states, i] != 0:
                    left = again(table, spare, result, i, u32(i), left)
    for i in range(3):
        ptr[table, i] = spare + 8 * i * ROOM
    ptr[table, 3] = spare + 32 * ROOM
    index = spare + 24 * ROOM
    while left > 0:
        invoke(void, attempt, table, 0, left)
        kept = i64(0)
        for i in range(left):
            at = u32[index, i]
            if u8[states, i] == 0:
                F[result, i64(at)] = F[ptr[table, 3], i]
            else:
                kept = again(table, spare, result, i, at, kept)
        left = kept


def again(table: ptr, spare: ptr, result: ptr, i: i64, at: u32, kept: i64) -> i64:
    """Put an element that was not accepted among those to be drawn for with the next key."""
    first = u32[ptr[table, 5], i]
    second = u32[ptr[table, 6], i]
    own = F[ptr[table, 2], i]
    if u8[ptr[table, 4], i] == 2:  # rare: only the normal number is drawn again
        found = cube(joined(first, second), THIRD / ROOT(own), own)
        if LOGS == 1:
            found = LOG(found)
        F[result, i64(at)] = found
        return kept
    u32[spare, kept] = first
    u32[spare + 8 * ROOM, kept] = second
    F[spare + 16 * ROOM, kept] = own
    u32[spare + 24 * ROOM, kept] = at
    return kept + 1


def gamma(buffers: ptr, start: i64, stop: i64) -> void:
    """Samples, or their logarithms: keys, alphas, kernels that begin, attempt and end, result."""
    memory = stack(14 * 8 * ROOM)
    first = memory
    second = memory + 8 * ROOM
    counters = memory + 16 * ROOM
    d = memory + 24 * ROOM
    factor = memory + 32 * ROOM
    key0 = memory + 40 * ROOM
    key1 = memory + 48 * ROOM
    states = memory + 56 * ROOM
    result = memory + 64 * ROOM
    spare = memory + 72 * ROOM
    table = stack(64)
    low = start
    while low < stop:
        high = min(low + ROOM, stop)
        if SHARED == 1:
            high = min(high, (low // EACH + 1) * EACH)
        count = high - low
        spread(ptr[buffers, 0], low, count, first, second, counters)
        ptr[table, 0] = first
        ptr[table, 1] = second
        ptr[table, 2] = counters
        ptr[table, 3] = ptr[buffers, 1] + low * SIZE
        ptr[table, 4] = key0
        ptr[table, 5] = key1
        ptr[table, 6] = d
        ptr[table, 7] = factor
        invoke(void, ptr[buffers, 2], table, 0, count)
        ptr[table, 0] = key0
        ptr[table, 1] = key1
        ptr[table, 2] = d
        ptr[table, 3] = result
        ptr[table, 4] = states
        ptr[table, 5] = first
        ptr[table, 6] = second
        cubes(ptr[buffers, 3], table, spare, result, count)
        ptr[table, 0] = d  # the first of them, and each
        ptr[table, 1] = d
        ptr[table, 2] = result
        ptr[table, 3] = factor
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


def is_few(buffers: ptr, n: i64) -> i64:
    """Whether a count is found by waiting."""
    if MASKED == 1:
        return i64(u8[ptr[buffers, 3], n])
    return i64(0) if F[ptr[buffers, 1], n] >= 10.0 else i64(1)


def key_of(buffers: ptr, n: i64) -> u64:
    j = n // EACH
    return joined(u32[ptr[buffers, 0], 2 * j], u32[ptr[buffers, 0], 2 * j + 1])


def put_key(table: ptr, at: i64, key: u64) -> void:
    u32[ptr[table, at], 0] = u32(key >> 32)
    u32[ptr[table, at + 1], 0] = u32(key)


def arrays(table: ptr, memory: ptr) -> void:
    for i in range(11):
        ptr[table, i] = memory + i * 8 * ROOM


def wait(kernel: ptr, table: ptr, result: ptr, key: u64, count: i64) -> void:
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


def waits(buffers: ptr, start: i64, stop: i64) -> i64:
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


def choose(buffers: ptr, table: ptr, low: i64, count: i64, all_: i64) -> i64:
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


def turns_of(buffers: ptr, start: i64, stop: i64) -> i64:
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


def go_back(buffers: ptr, start: i64, stop: i64, turns: i64) -> void:
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


def count_by_key(buffers: ptr, start: i64, stop: i64) -> void:
    """All counts of some keys."""
    for j in range(start, stop):
        if waits(buffers, j * EACH, (j + 1) * EACH) == 1:
            turns = turns_of(buffers, j * EACH, (j + 1) * EACH)
            go_back(buffers, j * EACH, (j + 1) * EACH, turns)


def most_of(numbers: ptr) -> i64:
    most = i64(0)
    for i in range(PIECES):
        most = max(most, i64[numbers, i])
    return most


def count_few(buffers: ptr, start: i64, stop: i64) -> void:
    """Counts of a single key found by waiting, and whether there are others."""
    i64[ptr[buffers, 7], start // PIECE] = waits(buffers, start, stop)


def count_turns(buffers: ptr, start: i64, stop: i64) -> void:
    """Turns of a range of a single key, where any count is found by attempts."""
    turns = i64(0)
    if most_of(ptr[buffers, 7]) == 1:
        turns = turns_of(buffers, start, stop)
    i64[ptr[buffers, 8], start // PIECE] = turns


def count_many(buffers: ptr, start: i64, stop: i64) -> void:
    """Counts of a single key found by attempts."""
    if i64[ptr[buffers, 7], start // PIECE] == 1:
        go_back(buffers, start, stop, most_of(ptr[buffers, 8]))
