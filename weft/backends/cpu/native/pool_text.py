"""The thread pool as LLVM text: workers that wait for a job, and a caller that works with them.

A job is a kernel and a range of its grid, in one part for each thread. A part is handed out in
chunks by a counter, first to the thread whose it is, so that the next job finds in the cache of a
core what this one left there, and then to those that are done with theirs. Whoever joins a job
counts itself in the pool's state; the caller closes the job when no chunk is left and waits only
for those who joined, so a worker that the system does not run never holds it up.

The state is one word of 64 bits, changed atomically: the number of the job above, and below, from
bit 0, how many workers are inside, how many may be, and whether the job is open.
"""

from __future__ import annotations

from weft.backends.cpu.native.float_mode import declarations

# Where things lie in the pool, each on a cache line of its own.
STATE, NAMES, JOB, BUSY, SLEEPERS, WAITING, SPIN, PARTS = 0, 64, 128, 192, 256, 320, 384, 512
MODE = JOB + 32  # the caller's floating-point mode, which helpers take over
SIZE = 4096
# Parts that there is room for: a counter and its end each.
MAX_PARTS = 48
LIMIT_SHIFT, OPEN = 12, 1 << 24
INSIDE = (1 << LIMIT_SHIFT) - 1

# The number of the futex call, and an instruction that lets a waiting core rest.
_SYSTEM = {
    "x86_64": (202, "llvm.x86.sse2.pause", ""),
    "aarch64": (98, "llvm.aarch64.isb", "i32 15"),
}
# The floating-point mode of a thread put into a word, and taken from there.
_MODE = {
    "x86_64": ("call void @llvm.x86.sse.stmxcsr(ptr %mode.at)",
               "call void @llvm.x86.sse.ldmxcsr(ptr %mode.at)"),
    "aarch64": ("%mode = call i64 @llvm.aarch64.get.fpcr()\n  store i64 %mode, ptr %mode.at",
                "%mode = load i64, ptr %mode.at\n  call void @llvm.aarch64.set.fpcr(i64 %mode)"),
}  # fmt: skip
_WAIT, _WAKE = 128, 129  # private to the process

_WORK = """
declare i64 @syscall(i64, ...)
declare void $DECLARE
$MODES

define internal void @futex(ptr %word, i32 %operation, i32 %value) nounwind {
  %ignored = call i64 (i64, ...) @syscall(
      i64 $FUTEX, ptr %word, i32 %operation, i32 %value, ptr null, ptr null, i32 0)
  ret void
}

define void @weft_relax(i64 %count) nounwind {
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  call void $RELAX
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %again, label %done
done:
  ret void
}

define internal void @work(ptr %pool, i64 %me) nounwind {
entry:
  %parts = getelementptr i8, ptr %pool, i64 $PARTS
  %job = getelementptr i8, ptr %pool, i64 $JOB
  %job1 = getelementptr i8, ptr %job, i64 8
  %job2 = getelementptr i8, ptr %job, i64 16
  %job3 = getelementptr i8, ptr %job, i64 24
  %kernel = load ptr, ptr %job
  %buffers = load ptr, ptr %job1
  %count = load i64, ptr %job2
  %chunk = load i64, ptr %job3
  %home = urem i64 %me, %count
  br label %visit
visit:
  %turn = phi i64 [ 0, %entry ], [ %turn1, %leave ]
  %sum = add i64 %home, %turn
  %which = urem i64 %sum, %count
  %far = shl i64 %which, 6
  %counter = getelementptr i8, ptr %parts, i64 %far
  %stop.at = getelementptr i8, ptr %counter, i64 8
  %stop = load i64, ptr %stop.at
  br label %take
take:
  %now = load atomic i64, ptr %counter monotonic, align 8
  %left = icmp slt i64 %now, %stop
  br i1 %left, label %try, label %leave
try:
  %from = atomicrmw add ptr %counter, i64 %chunk monotonic
  %some = icmp slt i64 %from, %stop
  br i1 %some, label %do, label %leave
do:
  %end = add i64 %from, %chunk
  %whole = icmp slt i64 %end, %stop
  %to = select i1 %whole, i64 %end, i64 %stop
  call void %kernel(ptr %buffers, i64 %from, i64 %to)
  br label %take
leave:
  %turn1 = add i64 %turn, 1
  %again = icmp ult i64 %turn1, %count
  br i1 %again, label %visit, label %done
done:
  ret void
}
"""

_WORKER = """
define ptr @weft_worker(ptr %pool) nounwind {
entry:
  %number.at = getelementptr i8, ptr %pool, i64 4
  %sleepers.at = getelementptr i8, ptr %pool, i64 $SLEEPERS
  %waiting.at = getelementptr i8, ptr %pool, i64 $WAITING
  %spin.at = getelementptr i8, ptr %pool, i64 $SPIN
  %names.at = getelementptr i8, ptr %pool, i64 $NAMES
  %others = atomicrmw add ptr %names.at, i64 1 monotonic
  %me = add i64 %others, 1
  br label %wait
wait:
  %last = phi i32 [ 0, %entry ], [ %number, %refused ], [ %number, %left ], [ %last, %sleep ]
  %spins = load atomic i32, ptr %spin.at monotonic, align 4
  br label %look
look:
  %turn = phi i32 [ 0, %wait ], [ %turn1, %rest ]
  %seen = load atomic i64, ptr %pool acquire, align 8
  %seen.high = lshr i64 %seen, 32
  %seen.number = trunc i64 %seen.high to i32
  %same = icmp eq i32 %seen.number, %last
  br i1 %same, label %nothing, label %enter
nothing:
  %turn1 = add i32 %turn, 1
  %tired = icmp ugt i32 %turn1, %spins
  br i1 %tired, label %sleep, label %rest
rest:
  call void $RELAX
  br label %look
sleep:
  %more = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  call void @futex(ptr %number.at, i32 $WAIT, i32 %last)
  %less = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %wait
enter:
  %state = phi i64 [ %seen, %look ], [ %found, %try ]
  %high = lshr i64 %state, 32
  %number = trunc i64 %high to i32
  %open = and i64 %state, $OPEN
  %is.open = icmp ne i64 %open, 0
  %inside = and i64 %state, $INSIDE
  %shifted = lshr i64 %state, $SHIFT
  %limit = and i64 %shifted, $INSIDE
  %room = icmp ult i64 %inside, %limit
  %may = and i1 %is.open, %room
  br i1 %may, label %try, label %refused
refused:
  br label %wait
try:
  %joined = add i64 %state, 1
  %swap = cmpxchg ptr %pool, i64 %state, i64 %joined acq_rel acquire
  %found = extractvalue { i64, i1 } %swap, 0
  %won = extractvalue { i64, i1 } %swap, 1
  br i1 %won, label %do, label %enter
do:
  %mode.at = getelementptr i8, ptr %pool, i64 $MODEPLACE
  $SETMODE
  call void @work(ptr %pool, i64 %me)
  %before = atomicrmw sub ptr %pool, i64 1 seq_cst
  %low = and i64 %before, $LAST
  %last.one = icmp eq i64 %low, 1
  br i1 %last.one, label %tell, label %left
tell:
  %waiting = load atomic i32, ptr %waiting.at seq_cst, align 4
  %asleep = icmp ne i32 %waiting, 0
  br i1 %asleep, label %wake, label %left
wake:
  call void @futex(ptr %pool, i32 $WAKE, i32 1)
  br label %left
left:
  br label %wait
}
"""

_RUN = """
define void @weft_run(ptr %pool, i64 %helpers, ptr %kernel, ptr %buffers,
                      i64 %start, i64 %stop, i64 %chunk) nounwind {
entry:
  %busy.at = getelementptr i8, ptr %pool, i64 $BUSY
  %low.at = getelementptr i8, ptr %pool, i64 0
  %span = sub i64 %stop, %start
  %short = icmp sle i64 %span, %chunk
  %nobody = icmp sle i64 %helpers, 0
  %alone = or i1 %short, %nobody
  br i1 %alone, label %inline, label %claim
claim:
  %swap = cmpxchg ptr %busy.at, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %swap, 1
  br i1 %won, label %post, label %inline

inline:
  %some = icmp slt i64 %start, %stop
  br i1 %some, label %part, label %return
part:
  %from = phi i64 [ %start, %inline ], [ %end, %part ]
  %end = add i64 %from, %chunk
  %whole = icmp slt i64 %end, %stop
  %to = select i1 %whole, i64 %end, i64 %stop
  call void %kernel(ptr %buffers, i64 %from, i64 %to)
  br i1 %whole, label %part, label %return

post:
  %parts = getelementptr i8, ptr %pool, i64 $PARTS
  %job = getelementptr i8, ptr %pool, i64 $JOB
  %job1 = getelementptr i8, ptr %job, i64 8
  %job2 = getelementptr i8, ptr %job, i64 16
  %job3 = getelementptr i8, ptr %job, i64 24
  store ptr %kernel, ptr %job
  store ptr %buffers, ptr %job1
  store i64 %chunk, ptr %job3
  %mode.at = getelementptr i8, ptr %pool, i64 $MODEPLACE
  $GETMODE
  %rest = sub i64 %span, 1
  %others = udiv i64 %rest, %chunk
  %few = icmp ult i64 %others, %helpers
  %limit = select i1 %few, i64 %others, i64 %helpers
  %chunks = add i64 %others, 1
  %all = add i64 %limit, 1
  %fit = icmp ult i64 %all, $MOST
  %count = select i1 %fit, i64 %all, i64 $MOST
  store i64 %count, ptr %job2
  br label %share
share:
  %part.number = phi i64 [ 0, %post ], [ %part.next, %share ]
  %share.from = phi i64 [ %start, %post ], [ %share.to, %share ]
  %part.next = add i64 %part.number, 1
  %scaled = mul i64 %chunks, %part.next
  %so.many = udiv i64 %scaled, %count
  %share.far = mul i64 %so.many, %chunk
  %share.end = add i64 %start, %share.far
  %share.less = icmp slt i64 %share.end, %stop
  %share.to = select i1 %share.less, i64 %share.end, i64 %stop
  %part.far = shl i64 %part.number, 6
  %part.at = getelementptr i8, ptr %parts, i64 %part.far
  %part.stop = getelementptr i8, ptr %part.at, i64 8
  store atomic i64 %share.from, ptr %part.at monotonic, align 8
  store i64 %share.to, ptr %part.stop
  %share.more = icmp ult i64 %part.next, %count
  br i1 %share.more, label %share, label %announce
announce:
  %state = load atomic i64, ptr %pool monotonic, align 8
  %high = lshr i64 %state, 32
  %number = add i64 %high, 1
  %above = shl i64 %number, 32
  %middle = shl i64 %limit, $SHIFT
  %low = or i64 %middle, $OPEN
  %opened = or i64 %above, %low
  store atomic i64 %opened, ptr %pool seq_cst, align 8
  %sleepers.at = getelementptr i8, ptr %pool, i64 $SLEEPERS
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %asleep = icmp ne i32 %sleepers, 0
  br i1 %asleep, label %wake, label %help
wake:
  %number.at = getelementptr i8, ptr %pool, i64 4
  %called = trunc i64 %limit to i32
  call void @futex(ptr %number.at, i32 $WAKE, i32 %called)
  br label %help
help:
  call void @work(ptr %pool, i64 0)
  %closed = atomicrmw and ptr %pool, i64 $CLOSE seq_cst
  %spin.at = getelementptr i8, ptr %pool, i64 $SPIN
  %spins = load atomic i32, ptr %spin.at monotonic, align 4
  br label %look
look:
  %turn = phi i32 [ 0, %help ], [ %turn1, %rests ], [ 0, %sleep ]
  %now = load atomic i64, ptr %pool acquire, align 8
  %inside = and i64 %now, $INSIDE
  %empty = icmp eq i64 %inside, 0
  br i1 %empty, label %finish, label %hold
hold:
  %turn1 = add i32 %turn, 1
  %tired = icmp ugt i32 %turn1, %spins
  br i1 %tired, label %sleep, label %rests
rests:
  call void $RELAX
  br label %look
sleep:
  %waiting.at = getelementptr i8, ptr %pool, i64 $WAITING
  store atomic i32 1, ptr %waiting.at seq_cst, align 4
  %value = trunc i64 %now to i32
  call void @futex(ptr %low.at, i32 $WAIT, i32 %value)
  store atomic i32 0, ptr %waiting.at seq_cst, align 4
  br label %look
finish:
  store atomic i32 0, ptr %busy.at release, align 4
  br label %return
return:
  ret void
}
"""


def pool_text(architecture: str) -> str | None:
    """The pool for an architecture (on Linux), or None where it is not known."""
    if architecture not in _SYSTEM:
        return None
    futex, relax, argument = _SYSTEM[architecture]
    get, put = _MODE[architecture]
    # What the low half holds besides the limit tells the last one out of a closed job.
    last = OPEN | INSIDE
    words = {
        "RELAX": f"@{relax}({argument})", "DECLARE": f"@{relax}({argument[:3]})",
        "FUTEX": futex, "WAIT": _WAIT, "WAKE": _WAKE, "NAMES": NAMES, "JOB": JOB,
        "BUSY": BUSY, "SLEEPERS": SLEEPERS, "WAITING": WAITING, "SPIN": SPIN, "OPEN": OPEN,
        "INSIDE": INSIDE, "SHIFT": LIMIT_SHIFT, "LAST": last, "CLOSE": ~OPEN,
        "PARTS": PARTS, "MOST": MAX_PARTS, "MODEPLACE": MODE, "GETMODE": get, "SETMODE": put,
        "MODES": declarations(architecture),
    }  # fmt: skip
    text = _WORK + _WORKER + _RUN
    for name in sorted(words, key=len, reverse=True):
        text = text.replace(f"${name}", str(words[name]))
    return text
