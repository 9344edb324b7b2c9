"""The words of the tables that the native caller reads, and of the recipes it follows."""

from __future__ import annotations

from weft.backends.llvm.native.processor import counter

# Words of the table that all programs share.
(
    MEMORY,
    BLOCK_TYPE,
    ARRAY_TYPE,
    NDARRAY_TYPE,
    NONE,
    FALSE,
    TRUE,
    FLOAT_TYPE,
    INT_TYPE,
    DICT_TYPE,
    TUPLE_TYPE,
    SLICE_TYPE,
    PIECE_TYPE,
    STATE,
    NAME_TRACE,
    EVAL_TRACE,
    NAME_AXES,
    EMPTY,
    KNOBS,
    NAME_CONTEXT,
    NAME_THREADS,
    RUN_POOL,
    STATE_POOL,
    READY,
    DEFAULT,
    PREPARE,
    DEVICE_TYPE,
    BUFFER_TYPE,
    BUFFER_ADDRESS,
    BUFFER_FOREIGN,
    PLUGIN_TYPE,
    PLUGIN_BUFFER,
    PLUGIN_HANDLE,
    PARTS_TYPE,
    PARTS_BUFFERS,
    SERVICES,
) = range(36)

# Words of the table of one program.
(
    SHARED,
    SLOTS,
    TEMPLATE,
    TEMPS,
    TEMP_COUNT,
    ARENA,
    NODES,
    END,
    RUN_WORDS,
    LONG,
    PARALLEL,
    RESULTS,
    RESULT_COUNT,
    HOSTS,
    ARGUMENTS,
    FLUSH,
    DEVICE,
    PROGRAM_WORDS,
) = range(18)

# Functions of a device with memory of its own, at the head of its table: one that runs a program,
# one that takes memory for a result, one that gives it back, one that makes an owner of it.
DEVICE_RUN, DEVICE_TAKE, DEVICE_GIVE, DEVICE_OWN, DEVICE_WORDS = range(5)

# What a result is: words of its row, and where its memory comes from.
KIND, NUMBER, BYTES, TYPE, OWNER, RESULT_WORDS = range(6)
FRESH, PASSED, CONSTANT, REPEATED = range(4)

# Recipes: how a tree is taken apart and put together.
(
    LEAF,
    TUPLE,
    LIST,
    DICT,
    NOTHING,
    FLOATING,
    BOOLEAN,
    NUMPY,
    SAME,
    INDEX,
    EQUAL,
    SLICE,
    REFERENCE,
    FIXED,
    GENERIC,
    GIVEN,
    TEXT,
    BITS,
    FIELDS,
    CALLED,
    TWICE,
    BUILD,
) = range(22)
SINGLE, DOUBLE, INT32, AS_IS = range(4)

# Words of a function's table of entries.
(
    ENTRY_CONTEXT,
    ENTRY_RECIPE,
    ENTRY_PROGRAM,
    ENTRY_RESULT,
    ENTRY_DONATED,
    ENTRY_HITS,
    ENTRY_WORDS,
) = range(7)
FIRST_ENTRY = 2
# Donated leaves of an entry, and references: how many, then a row for each of them. A reference has
# a slot for its value, and the number of the result that it gets, or -1.
DONATED_COUNT, DONATED_ROWS = range(2)
DONATED_LEAF, DONATED_TAKEN, DONATED_SLOT, DONATED_RESULT, DONATED_WORDS = range(5)
# What running says beside 0 and 1: of a call that is not for native code, and for lack of memory.
SEEN, SHORT = 2, 3

# Leaves found so far: their number, how many there may be, the place in the recipe; what users'
# functions have given for containers of their own, how much of it has been read, and what is held
# while they run; whether one of them has raised; then pointers, owners, scalars or arrays, and
# references.
COUNT, ROOM, CURSOR, PAIRS, READ, HELD, FAILED, FOUND = range(8)

# Memory kept for reuse: bytes kept, bytes allowed, and a list of pieces for each class of size.
KEPT, ALLOWED, LISTS = range(3)
CLASSES = 200
HUGE = 1 << 22
PAGE = 1 << 21
ADVISE_HUGE = 14
# Ticks of the clock between two looks at signals.
OVERDUE = counter()[-1]
CONTIGUOUS_ALIGNED = 0x101
SCALAR_VALUE = 2  # the word of a NumPy scalar that has its value
OWNS_DATA, WRITEABLE = 0x4, 0x400
STACK_WORDS = 1024  # words of a call that lie on the stack
SLOW_TEXT = int.from_bytes(b"_slow", "little")
# A block: a Python object that owns a piece. Header, address, bytes, class, memory.
BLOCK_WORDS = 6
