"""Attention as stubs: tiles of scores stay in registers, memory never has them.

A block has a tile of rows and goes through the tiles of columns, keeping the largest score and the
sum of each row (Dao 2023, FlashAttention-2). Products of tiles are done by matrix instructions on
16-bit floats. The backward pass computes the scores again: one kernel for the gradients of keys
and values, by columns, one for those of queries, by rows; nothing is added up by atomics.

Arrays have strides for batch, head and row; elements of a row follow each other.
"""

from __future__ import annotations

from weft.backends.cuda.routines.device import (
    barrier,
    block,
    commit_copies,
    copy_async,
    exp2_fast,
    f32_of_f16,
    load_matrices,
    load_transposed,
    multiply_bf16,
    multiply_f16,
    pack_bf16,
    pack_f16,
    shared_place,
    shuffle_xor_f32,
    thread,
    wait_all_copies,
    wait_older_copies,
    zero_shared,
)
from weft.kernel.kinds import (
    External,
    bits,
    f32,
    i32,
    i64,
    ptr,
    stack,
    static,
    u16,
    u32,
    unrolled,
    void,
)

tiles = External(ptr, ())  # shared memory
log_single = External(f32, (f32,))

LEAST = -3.0 * 2.0**125


def multiply(out: ptr, a: ptr, b0: u32, b1: u32, *, HALF: static) -> void:
    if HALF == 1:
        multiply_f16(out, a, b0, b1)
    else:
        multiply_bf16(out, a, b0, b1)


def packed(x: f32, y: f32, *, HALF: static) -> u32:
    if HALF == 1:
        return pack_f16(x, y)
    return pack_bf16(x, y)


def single(x: u16, *, HALF: static) -> f32:
    if HALF == 1:
        return f32_of_f16(x)
    return bits(f32, u32(x) << 16)


def swizzled(row: i64, chunk: i64, *, D: static, SWIZZLE: static) -> i64:
    """Where 16 bytes of a row are in a tile: neighbouring rows lie in different banks."""
    return row * (2 * D) + ((chunk ^ (row % SWIZZLE)) * 16)


def fetch(
    tile: ptr,
    source: ptr,
    stride: i64,
    first: i64,
    most: i64,
    count: i64,
    *,
    D: static,
    WARPS: static,
) -> void:
    """Begin to copy rows of an array to a tile; rows beyond the last are 0."""
    place = shared_place(tile)
    chunks = i64(D // 8)
    for i in range(thread(), count * chunks, 32 * WARPS):
        row = i // chunks
        chunk = i % chunks
        to = place + u32(swizzled(row, chunk))
        if first + row < most:
            copy_async(to, source + 2 * ((first + row) * stride + chunk * 8))
        else:
            zero_shared(to)


def rows_fragment(out: ptr, tile: ptr, row: i64, k: i64) -> void:
    """A 16 x 16 fragment, as the first operand of a product: rows from one on, step k of depth."""
    lane = thread() % 32
    load_matrices(out, shared_place(tile) + u32(swizzled(row + lane % 16, 2 * k + lane // 16)))


def columns_fragment(out: ptr, tile: ptr, row: i64, k: i64) -> void:
    """Two 16 x 8 fragments as second operands: 16 rows of a tile are columns of the product.

    Words 0 and 1 are of the first eight, 2 and 3 of the others.
    """
    lane = thread() % 32
    at = row + lane % 8 + lane // 16 * 8
    load_matrices(out, shared_place(tile) + u32(swizzled(at, 2 * k + lane // 8 % 2)))


def depth_fragment(out: ptr, tile: ptr, row: i64, n: i64) -> void:
    """Two 16 x 8 fragments as second operands: 16 rows of a tile are the depth of the product.

    Words 0 and 1 are of eight columns from 16 n on, 2 and 3 of the next.
    """
    lane = thread() % 32
    load_transposed(out, shared_place(tile) + u32(swizzled(row + lane % 16, 2 * n + lane // 16)))


def product_of_rows(out: ptr, left: ptr, row: i64, right: ptr, *, D: static, TN: static) -> void:
    """A warp's 16 rows of a tile times all rows of another."""
    a = stack(16)
    b = stack(16)
    for k in unrolled(D // 16):
        rows_fragment(a, left, row, k)
        for n in unrolled(TN // 16):
            columns_fragment(b, right, 16 * n, k)
            multiply(out + 32 * n, a, u32[b, 0], u32[b, 1])
            multiply(out + 32 * n + 16, a, u32[b, 2], u32[b, 3])


def add_product(out: ptr, weights: ptr, right: ptr, *, D: static, TN: static) -> void:
    """Add a warp's 16 rows of weights times the rows of a tile."""
    a = stack(16)
    b = stack(16)
    for k in unrolled(TN // 16):
        for i in unrolled(2):
            u32[a, 2 * i] = packed(f32[weights, 8 * k + 4 * i], f32[weights, 8 * k + 4 * i + 1])
            u32[a, 2 * i + 1] = packed(
                f32[weights, 8 * k + 4 * i + 2], f32[weights, 8 * k + 4 * i + 3]
            )
        for n in unrolled(D // 16):
            depth_fragment(b, right, 16 * k, n)
            multiply(out + 32 * n, a, u32[b, 0], u32[b, 1])
            multiply(out + 32 * n + 16, a, u32[b, 2], u32[b, 3])


def store_rows(
    out: ptr, stride: i64, sums: ptr, row: i64, most: i64, low: f32, high: f32, *, D: static
) -> void:
    """A warp's 16 rows of results times a number for each half of them."""
    lane = thread() % 32
    at = row + lane // 4
    for n in unrolled(D // 8):
        word = packed(f32[sums, 4 * n] * low, f32[sums, 4 * n + 1] * low)
        if at < most:
            u32[out + 2 * (at * stride + 8 * n + lane % 4 * 2), 0] = word
        word = packed(f32[sums, 4 * n + 2] * high, f32[sums, 4 * n + 3] * high)
        if at + 8 < most:
            u32[out + 2 * ((at + 8) * stride + 8 * n + lane % 4 * 2), 0] = word


def quad_max(x: f32) -> f32:
    x = max(x, shuffle_xor_f32(x, i32(1)))
    return max(x, shuffle_xor_f32(x, i32(2)))


def quad_sum(x: f32) -> f32:
    x = x + shuffle_xor_f32(x, i32(1))
    return x + shuffle_xor_f32(x, i32(2))


# --- forward --------------------------------------------------------------------------------------


def hide(
    scores: ptr,
    row: i64,
    column: i64,
    *,
    COLUMNS: static,
    CAUSAL: static,
    SHIFT: static,
    TN: static,
) -> void:
    """Give scores that a row doesn't see a weight of 0."""
    lane = thread() % 32
    for n in unrolled(TN // 8):
        for i in unrolled(4):
            r = row + lane // 4 + i // 2 * 8
            c = column + 8 * n + lane % 4 * 2 + i % 2
            hidden = c >= COLUMNS
            if CAUSAL == 1:
                hidden = c >= COLUMNS or c > r + SHIFT
            if hidden:
                f32[scores, 4 * n + i] = f32(LEAST)


def renew(
    scores: ptr, sums: ptr, state: ptr, half: i64, *, D: static, TN: static, SCALE_LOG2: static
) -> void:
    """Scores of one row of two as weights; what was summed with another maximum is scaled.

    The state: the largest score of each row, then the sums of weights of this thread.
    """
    most = f32[state, half]
    found = most
    for n in unrolled(TN // 8):
        found = max(found, max(f32[scores, 4 * n + 2 * half], f32[scores, 4 * n + 2 * half + 1]))
    found = quad_max(found)
    scale = exp2_fast((most - found) * SCALE_LOG2)
    shift = found * SCALE_LOG2
    total = f32[state, 2 + half] * scale
    for n in unrolled(TN // 8):
        for i in unrolled(2):
            x = exp2_fast(f32[scores, 4 * n + 2 * half + i] * SCALE_LOG2 - shift)
            f32[scores, 4 * n + 2 * half + i] = x
            total = total + x
    for n in unrolled(D // 8):
        f32[sums, 4 * n + 2 * half] = f32[sums, 4 * n + 2 * half] * scale
        f32[sums, 4 * n + 2 * half + 1] = f32[sums, 4 * n + 2 * half + 1] * scale
    f32[state, half] = found
    f32[state, 2 + half] = total


def forward(
    q: ptr,
    k: ptr,
    v: ptr,
    out: ptr,
    stats: ptr,
    *,
    D: static,
    HEADS: static,
    GROUP: static,
    ROWS: static,
    COLUMNS: static,
    CAUSAL: static,
    SHIFT: static,
    TM: static,
    TN: static,
    SCALE_LOG2: static,
    Q_BATCH: static,
    Q_HEAD: static,
    Q_ROW: static,
    K_BATCH: static,
    K_HEAD: static,
    K_ROW: static,
    V_BATCH: static,
    V_HEAD: static,
    V_ROW: static,
    O_BATCH: static,
    O_HEAD: static,
    O_ROW: static,
) -> void:
    """Results, and for each row the logarithm (base 2) of the sum of exponentials."""
    count = i64((ROWS + TM - 1) // TM)
    tile = count - 1 - block() % count  # long rows first
    head = block() // count % HEADS
    batch = block() // count // HEADS
    first = tile * TM
    warp = thread() // 32
    lane = thread() % 32
    row = first + 16 * warp
    k = k + 2 * (batch * K_BATCH + head // GROUP * K_HEAD)
    v = v + 2 * (batch * V_BATCH + head // GROUP * V_HEAD)
    size = i64(2 * D * TN)
    keys = tiles()
    values = tiles() + 2 * size
    queries = tiles() + 4 * size
    steps = i64((COLUMNS + TN - 1) // TN)
    if CAUSAL == 1:
        steps = min(steps, (first + TM - 1 + SHIFT) // TN + 1)
    source = q + 2 * (batch * Q_BATCH + head * Q_HEAD)
    fetch(queries, source, Q_ROW, first, ROWS, TM)
    fetch(keys, k, K_ROW, 0, COLUMNS, TN)
    commit_copies()
    fetch(values, v, V_ROW, 0, COLUMNS, TN)
    commit_copies()
    sums = stack(2 * D)
    scores = stack(2 * TN)
    state = stack(16)
    for i in unrolled(D // 2):
        f32[sums, i] = f32(0.0)
    for i in unrolled(2):
        f32[state, i] = f32(LEAST)
        f32[state, 2 + i] = f32(0.0)
    for j in range(steps):
        now = j % 2 * size
        other = size - now
        wait_older_copies()
        barrier()
        if j + 1 < steps:
            fetch(keys + other, k, K_ROW, (j + 1) * TN, COLUMNS, TN)
        commit_copies()
        for i in unrolled(TN // 2):
            f32[scores, i] = f32(0.0)
        product_of_rows(scores, queries, 16 * warp, keys + now)
        if CAUSAL == 1:
            if (j + 1) * TN > COLUMNS or (j + 1) * TN - 1 > row + SHIFT:
                hide(scores, row, j * TN)
        else:
            if (j + 1) * TN > COLUMNS:
                hide(scores, row, j * TN)
        renew(scores, sums, state, i64(0))
        renew(scores, sums, state, i64(1))
        wait_older_copies()
        barrier()
        if j + 1 < steps:
            fetch(values + other, v, V_ROW, (j + 1) * TN, COLUMNS, TN)
        commit_copies()
        add_product(sums, scores, values + now)
    wait_all_copies()
    low = quad_sum(f32[state, 2])
    high = quad_sum(f32[state, 3])
    out = out + 2 * (batch * O_BATCH + head * O_HEAD)
    store_rows(out, O_ROW, sums, row, ROWS, 1.0 / low, 1.0 / high)
    at = row + lane // 4
    base = (batch * HEADS + head) * ROWS
    if lane % 4 == 0:
        if at < ROWS:
            f32[stats, base + at] = (
                f32[state, 0] * SCALE_LOG2 + log_single(low) * 1.4426950216293335
            )
        if at + 8 < ROWS:
            f32[stats, base + at + 8] = (
                f32[state, 1] * SCALE_LOG2 + log_single(high) * 1.4426950216293335
            )


# --- backward -------------------------------------------------------------------------------------


def row_products(
    g: ptr,
    o: ptr,
    out: ptr,
    *,
    D: static,
    BATCH: static,
    HEADS: static,
    ROWS: static,
    O_BATCH: static,
    O_HEAD: static,
    O_ROW: static,
    G_BATCH: static,
    G_HEAD: static,
    G_ROW: static,
) -> void:
    """For each row the sum of results times their gradients; a warp for each."""
    lane = thread() % 32
    number = block() * 8 + thread() // 32
    if number < i64(ROWS) * HEADS * BATCH:
        row = number % ROWS
        head = number // ROWS % HEADS
        batch = number // ROWS // HEADS
        one = g + 2 * (batch * G_BATCH + head * G_HEAD + row * G_ROW)
        two = o + 2 * (batch * O_BATCH + head * O_HEAD + row * O_ROW)
        total = f32(0.0)
        for i in range(lane, D, 32):
            total = total + single(u16[one, i]) * single(u16[two, i])
        for k in unrolled(5):
            total = total + shuffle_xor_f32(total, i32(1) << i32(k))
        if lane == 0:
            f32[out, number] = total


def row_numbers(
    g: ptr,
    o: ptr,
    stats: ptr,
    out: ptr,
    *,
    D: static,
    BATCH: static,
    HEADS: static,
    ROWS: static,
    PADDED: static,
    O_BATCH: static,
    O_HEAD: static,
    O_ROW: static,
    G_BATCH: static,
    G_HEAD: static,
    G_ROW: static,
) -> void:
    """The logarithm of each row, to the base 2, and then the sum of its results times their
    gradients; rows beyond the last have a logarithm that makes their weights 0. A warp for each."""
    lane = thread() % 32
    number = block() * 8 + thread() // 32
    count = i64(PADDED) * HEADS * BATCH
    if number < count:
        row = number % PADDED
        head = number // PADDED % HEADS
        batch = number // PADDED // HEADS
        total = f32(0.0)
        log = f32(2.0**100)
        if row < ROWS:
            one = g + 2 * (batch * G_BATCH + head * G_HEAD + row * G_ROW)
            two = o + 2 * (batch * O_BATCH + head * O_HEAD + row * O_ROW)
            for i in range(lane, D // 2, 32):
                x = u32[one, i]
                y = u32[two, i]
                total = total + single(u16(x)) * single(u16(y))
                total = total + single(u16(x >> 16)) * single(u16(y >> 16))
            log = f32[stats, (batch * HEADS + head) * ROWS + row] * 1.4426950216293335
        for k in unrolled(5):
            total = total + shuffle_xor_f32(total, i32(1) << i32(k))
        if lane == 0:
            f32[out, number] = log
            f32[out, count + number] = total


def keys_backward(
    q: ptr,
    k: ptr,
    v: ptr,
    g: ptr,
    stats: ptr,
    products: ptr,
    dk: ptr,
    dv: ptr,
    *,
    D: static,
    HEADS: static,
    GROUP: static,
    ROWS: static,
    COLUMNS: static,
    CAUSAL: static,
    SHIFT: static,
    WARPS: static,
    TM: static,
    TN: static,
    SCALE: static,
    SCALE_LOG2: static,
    Q_BATCH: static,
    Q_HEAD: static,
    Q_ROW: static,
    K_BATCH: static,
    K_HEAD: static,
    K_ROW: static,
    V_BATCH: static,
    V_HEAD: static,
    V_ROW: static,
    G_BATCH: static,
    G_HEAD: static,
    G_ROW: static,
) -> void:
    """Gradients of a tile of keys and values, from all rows that see them."""
    count = i64((COLUMNS + TM - 1) // TM)
    tile = block() % count
    own = block() // count % (HEADS // GROUP)
    batch = block() // count // (HEADS // GROUP)
    first = tile * TM
    warp = thread() // 32
    lane = thread() % 32
    size = i64(2 * D * TN)
    keys = tiles()
    values = tiles() + 2 * D * TM
    queries = tiles() + 4 * D * TM
    grads = queries + size
    numbers = grads + size
    fetch(keys, k + 2 * (batch * K_BATCH + own * K_HEAD), K_ROW, first, COLUMNS, TM)
    fetch(values, v + 2 * (batch * V_BATCH + own * V_HEAD), V_ROW, first, COLUMNS, TM)
    commit_copies()
    dk_sums = stack(2 * D)
    dv_sums = stack(2 * D)
    scores = stack(2 * TN)
    changes = stack(2 * TN)
    for i in unrolled(D // 2):
        f32[dk_sums, i] = f32(0.0)
        f32[dv_sums, i] = f32(0.0)
    start = i64(0)
    if CAUSAL == 1:
        start = max(i64(0), first - SHIFT) // TN
    steps = i64((ROWS + TN - 1) // TN)
    for member in range(GROUP):
        head = own * GROUP + member
        base = (batch * HEADS + head) * ROWS
        for j in range(start, steps):
            barrier()
            fetch(queries, q + 2 * (batch * Q_BATCH + head * Q_HEAD), Q_ROW, j * TN, ROWS, TN)
            fetch(grads, g + 2 * (batch * G_BATCH + head * G_HEAD), G_ROW, j * TN, ROWS, TN)
            commit_copies()
            for i in range(thread(), TN, 32 * WARPS):
                at = j * TN + i
                f32[numbers, i] = f32(0.0)
                f32[numbers, TN + i] = f32(0.0)
                if at < ROWS:
                    f32[numbers, i] = f32[stats, base + at]
                    f32[numbers, TN + i] = f32[products, base + at]
            wait_all_copies()
            barrier()
            for i in unrolled(TN // 2):
                f32[scores, i] = f32(0.0)
                f32[changes, i] = f32(0.0)
            product_of_rows(scores, keys, 16 * warp, queries)
            product_of_rows(changes, values, 16 * warp, grads)
            for n in unrolled(TN // 8):
                for i in unrolled(4):
                    c = first + 16 * warp + lane // 4 + i // 2 * 8
                    inside = 8 * n + lane % 4 * 2 + i % 2
                    r = j * TN + inside
                    x = exp2_fast(f32[scores, 4 * n + i] * SCALE_LOG2 - f32[numbers, inside])
                    hidden = r >= ROWS or c >= COLUMNS
                    if CAUSAL == 1:
                        hidden = r >= ROWS or c >= COLUMNS or c > r + SHIFT
                    if hidden:
                        x = f32(0.0)
                    f32[scores, 4 * n + i] = x
                    f32[changes, 4 * n + i] = x * (
                        f32[changes, 4 * n + i] - f32[numbers, TN + inside]
                    )
            add_product(dv_sums, scores, grads)
            add_product(dk_sums, changes, queries)
    row = first + 16 * warp
    dk = dk + 2 * (batch * K_BATCH + own * K_HEAD)
    dv = dv + 2 * (batch * V_BATCH + own * V_HEAD)
    store_rows(dk, K_ROW, dk_sums, row, COLUMNS, f32(SCALE), f32(SCALE))
    store_rows(dv, V_ROW, dv_sums, row, COLUMNS, f32(1.0), f32(1.0))


def queries_backward(
    q: ptr,
    k: ptr,
    v: ptr,
    g: ptr,
    stats: ptr,
    products: ptr,
    dq: ptr,
    *,
    D: static,
    HEADS: static,
    GROUP: static,
    ROWS: static,
    COLUMNS: static,
    CAUSAL: static,
    SHIFT: static,
    TM: static,
    TN: static,
    SCALE: static,
    SCALE_LOG2: static,
    Q_BATCH: static,
    Q_HEAD: static,
    Q_ROW: static,
    K_BATCH: static,
    K_HEAD: static,
    K_ROW: static,
    V_BATCH: static,
    V_HEAD: static,
    V_ROW: static,
    G_BATCH: static,
    G_HEAD: static,
    G_ROW: static,
) -> void:
    """Gradients of a tile of queries."""
    count = i64((ROWS + TM - 1) // TM)
    tile = count - 1 - block() % count
    head = block() // count % HEADS
    batch = block() // count // HEADS
    first = tile * TM
    warp = thread() // 32
    lane = thread() % 32
    row = first + 16 * warp
    size = i64(2 * D * TN)
    queries = tiles()
    grads = tiles() + 2 * D * TM
    keys = tiles() + 4 * D * TM
    values = keys + 2 * size
    k = k + 2 * (batch * K_BATCH + head // GROUP * K_HEAD)
    v = v + 2 * (batch * V_BATCH + head // GROUP * V_HEAD)
    steps = i64((COLUMNS + TN - 1) // TN)
    if CAUSAL == 1:
        steps = min(steps, (first + TM - 1 + SHIFT) // TN + 1)
    fetch(queries, q + 2 * (batch * Q_BATCH + head * Q_HEAD), Q_ROW, first, ROWS, TM)
    fetch(grads, g + 2 * (batch * G_BATCH + head * G_HEAD), G_ROW, first, ROWS, TM)
    fetch(keys, k, K_ROW, 0, COLUMNS, TN)
    fetch(values, v, V_ROW, 0, COLUMNS, TN)
    commit_copies()
    base = (batch * HEADS + head) * ROWS
    at = row + lane // 4
    shifts = stack(16)
    for i in unrolled(2):
        f32[shifts, i] = f32(0.0)
        f32[shifts, 2 + i] = f32(0.0)
        if at + 8 * i < ROWS:
            f32[shifts, i] = f32[stats, base + at + 8 * i]
            f32[shifts, 2 + i] = f32[products, base + at + 8 * i]
    sums = stack(2 * D)
    scores = stack(2 * TN)
    changes = stack(2 * TN)
    for i in unrolled(D // 2):
        f32[sums, i] = f32(0.0)
    for j in range(steps):
        now = j % 2 * size
        other = size - now
        wait_all_copies()
        barrier()
        if j + 1 < steps:
            fetch(keys + other, k, K_ROW, (j + 1) * TN, COLUMNS, TN)
            fetch(values + other, v, V_ROW, (j + 1) * TN, COLUMNS, TN)
        commit_copies()
        for i in unrolled(TN // 2):
            f32[scores, i] = f32(0.0)
            f32[changes, i] = f32(0.0)
        product_of_rows(scores, queries, 16 * warp, keys + now)
        product_of_rows(changes, grads, 16 * warp, values + now)
        for n in unrolled(TN // 8):
            for i in unrolled(4):
                c = j * TN + 8 * n + lane % 4 * 2 + i % 2
                r = at + i // 2 * 8
                x = exp2_fast(f32[scores, 4 * n + i] * SCALE_LOG2 - f32[shifts, i // 2])
                hidden = c >= COLUMNS
                if CAUSAL == 1:
                    hidden = c >= COLUMNS or c > r + SHIFT
                if hidden:
                    x = f32(0.0)
                f32[changes, 4 * n + i] = x * (f32[changes, 4 * n + i] - f32[shifts, 2 + i // 2])
        add_product(sums, changes, keys + now)
    wait_all_copies()
    dq = dq + 2 * (batch * Q_BATCH + head * Q_HEAD)
    store_rows(dq, Q_ROW, sums, row, ROWS, f32(SCALE), f32(SCALE))
