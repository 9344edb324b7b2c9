"""Whether the threads of a warp, or of a block, come together to what they do together, by the PTX
of a kernel: nothing between threads may hang on a branch that some of them take and others don't.

For each register, by which bits of its number a thread's value may differ from another thread's:
five bits for those of a warp, and ``WARPS`` for other warps. A value combined with that of the
thread whose number differs by one bit (``shfl.sync.bfly``) is the same for both.
"""

import re
from collections import defaultdict

LANES = frozenset([1, 2, 4, 8, 16])
WARPS = 32
EVERY = LANES | {WARPS}
NONE = frozenset()

_INSTRUCTION = re.compile(r"^(?:@(!?)(%\w+)\s+)?([a-z][\w.:]*)\s*(.*?);?$")
_REGISTER = re.compile(r"%[a-zA-Z_]+[\w.]*")
_OFFSET = re.compile(r"\[(%SPL?\w*|__local_depot\w*)(?:\+(\d+))?\]")
# What all threads of a block, and all of a warp, do together.
_BLOCK = ("bar.sync", "barrier.sync", "barrier.cta", "bar.cta", "barrier.cluster")
_WARP = ("shfl.sync", "vote.sync", "bar.warp", "match.", "ldmatrix", "mma.", "redux")
_NO_RESULT = ("st.", "red.", "bra", "bar", "ret", "membar", "fence", "griddep", "prefetch", "cp.")
_COMMUTE = ("add.", "mul.", "min.", "max.", "and.", "or.", "xor.", "fma.")
DEEP = 24  # instructions between a shuffle and what combines both


class Instruction:
    def __init__(self, line):
        found = _INSTRUCTION.match(line)
        self.line, (self.negated, self.guard, self.op, rest) = line, found.groups()
        self.target = None
        if self.op.startswith("bra"):
            self.target, rest = rest.strip(), ""
        parts = _split(rest)
        registers = [_REGISTER.findall(p) for p in parts]
        if self.op.startswith(_NO_RESULT) or not parts:
            self.results, self.sources = [], [r for p in registers for r in p]
        else:
            self.results = registers[0]
            self.sources = [r for p in registers[1:] for r in p]
        self.numbers = [int(p, 0) for p in parts if re.fullmatch(r"-?\d+", p)]
        place = _OFFSET.search(rest) if self.op.startswith(("ld.local", "st.local")) else None
        if self.op.startswith(("ld.local", "st.local")) or (
            place is None and "%SP" in rest and self.op[:3] in ("ld.", "st.")
        ):
            own = f"%local{place[2] or 0}" if place else "%local"
            if self.op.startswith("st"):
                self.results = [own]
            else:
                self.sources = [own]


def _split(text):
    """Operands, of which some are in brackets."""
    parts, depth, now = [], 0, ""
    for c in text:
        depth += (c in "{[(") - (c in "}])")
        if c == "," and not depth:
            parts.append(now.strip())
            now = ""
        else:
            now += c
    return [*parts, now.strip()] if now.strip() else parts


class Block:
    def __init__(self):
        self.instructions, self.after = [], []


def blocks_of(ptx):
    """The basic blocks of a kernel, in order."""
    body = ptx[ptx.index(".entry") :]
    lines = body[body.index("{") + 1 : body.rindex("}")].split("\n")
    blocks, labels = [Block()], {}
    for line in lines:
        line = line.partition("//")[0].strip()
        if re.fullmatch(r"[$\w]+:", line):
            if blocks[-1].instructions or line[:-1] in labels:
                blocks.append(Block())
            labels[line[:-1]] = blocks[-1]
            continue
        for word in re.split(r"(?<=;)\s+|(?<=\{)\s+|\s+(?=\}$)", line):
            word = word.strip().strip("{}").strip() if word.strip() in "{}" else word.strip()
            if not word or word[0] == "." or word[0] == "{":
                continue
            made = Instruction(word)
            blocks[-1].instructions.append(made)
            if made.op.startswith(("bra", "ret")):
                blocks.append(Block())
    for one, following in zip(blocks, [*blocks[1:], None], strict=True):
        last = one.instructions[-1] if one.instructions else None
        if last is not None and last.op.startswith("bra"):
            one.after.append(labels[last.target])
        if last is None or not (last.op.startswith(("bra", "ret")) and last.guard is None):
            if following is not None:
                one.after.append(following)
    return blocks


def _separate(block):
    """Rename registers: each write of one in a block, and the reads after it, get a new name."""
    now, moved = {}, []
    for n, x in enumerate(block.instructions):
        x.sources = [now.get(r, r) for r in x.sources]
        x.guard = now.get(x.guard, x.guard)
        if x.guard is None or x.op.startswith("bra"):
            found = [(r, f"{r}@{id(block)}_{n}") for r in x.results if not r.startswith("%local")]
            x.results = [new for _, new in found] + [r for r in x.results if r[:6] == "%local"]
            now.update(found)
        else:
            x.sources += [now.get(r, r) for r in x.results]
            for r in x.results:
                now.pop(r, None)
    for r, new in now.items():
        made = Instruction("mov.b32 %a, %b;")
        made.results, made.sources = [r], [new]
        moved.append(made)
    end = len(block.instructions)
    if end and block.instructions[-1].op.startswith(("bra", "ret")):
        end -= 1
    block.instructions[end:end] = moved


def _control(blocks):
    """For each block, the branches that decide whether it is reached."""
    number = {id(b): i for i, b in enumerate(blocks)}
    after = [[number[id(x)] for x in b.after] for b in blocks]
    end = len(blocks)
    ending = {i for i in range(end) if not after[i]}  # nothing waits for loops without an end
    while more := {i for i in range(end) if i not in ending and ending & {*after[i]}}:
        ending |= more
    after = [[j for j in found if j in ending] for found in after]
    everything = set(range(end + 1))
    behind = [set(everything) for _ in range(end)] + [{end}]
    changed = True
    while changed:
        changed = False
        for i in reversed(range(end)):
            follow = [behind[j] for j in after[i] or [end]]
            new = set.intersection(*follow) | {i}
            if new != behind[i]:
                behind[i], changed = new, True
    own = defaultdict(set)
    for i in range(end):
        if len(after[i]) > 1:
            for j in range(end):
                if any(j in behind[k] for k in after[i]) and (j not in behind[i] or j == i):
                    own[j].add(i)
    whole = {}
    for j in range(end):
        seen, waiting = set(), [*own[j]]
        while waiting:
            i = waiting.pop()
            if i not in seen:
                seen.add(i)
                waiting += own[i]
        whole[j] = seen
    return whole


class Kernel:
    """What of a kernel's values differs between which threads."""

    def __init__(self, ptx):
        self.blocks = blocks_of(ptx)
        self.control = _control(self.blocks)
        for b in self.blocks:
            _separate(b)
        self.made = {}  # instructions that give a register, with their blocks
        for i, b in enumerate(self.blocks):
            for x in b.instructions:
                for r in x.results:
                    self.made.setdefault(r, []).append((x, i))
        self.differs = dict.fromkeys(self.made, NONE)
        self.exchanged = {bit: set() for bit in LANES}  # by a bit, roots of what is exchanged
        for name in [r for r, m in self.made.items() if m[0][0].op.startswith("shfl.sync.bfly")]:
            x = self.made[name][0][0]
            self.exchanged[x.numbers[0]].add(self._root(x.sources[0]))
        self._settle()

    def _root(self, name):
        """What a register is moved or converted from."""
        for _ in range(DEEP):
            made = self.made.get(name, ())
            if len(made) != 1 or len(made[0][0].sources) != 1:
                return name
            x = made[0][0]
            if not x.op.startswith(("mov", "cvt", "shr", "selp", "bfe", "prmt", "and", "shl")):
                return name
            name = x.sources[0]
        return name

    def _settle(self):
        changed = True
        while changed:
            changed = False
            for name, made in self.made.items():
                new = self.differs[name]
                for x, block in made:
                    new = new | self._of(x)
                    if x.guard:
                        new = new | self.differs.get(x.guard, NONE)
                    if len(made) > 1:
                        new = new | self._reached(block, self._same(name, x))
                if new != self.differs[name]:
                    self.differs[name], changed = new, True

    def _same(self, name, x):
        """Blocks that give a register the same value as an instruction."""
        root = self._root(x.sources[0]) if x.op.startswith("mov") and x.sources else None
        given = [(y, i) for y, i in self.made[name] if y.op.startswith("mov") and y.sources]
        return {i for y, i in given if root is not None and self._root(y.sources[0]) == root}

    def _reached(self, block, without=()):
        """By which threads a block is reached, and not by others, ``without`` some branches."""
        found = NONE
        for i in self.control[block] - {*without}:
            last = self.blocks[i].instructions[-1]
            found = found | self.differs.get(last.guard, NONE)
        return found

    def _of(self, x):
        found = NONE
        for r in x.sources:
            found = found | (
                EVERY if r.startswith(("%tid", "%laneid")) else self.differs.get(r, NONE)
            )
            if r.startswith(("%warpid", "%clock", "%globaltimer")):
                found = EVERY
        if x.op.startswith(("atom", "ld.relaxed", "ld.acquire", "ld.volatile")):
            return EVERY
        if x.op.startswith("vote"):
            return found & {WARPS}
        if x.op.startswith("shfl.sync.idx"):
            which = self.differs.get(x.sources[1], NONE) if len(x.sources) > 1 else NONE
            return (self.differs.get(x.sources[0], NONE) & {WARPS}) | which
        if x.op.startswith("shfl.sync.bfly") or not found:
            return found
        if x.op.startswith("shfl"):
            return found | LANES
        return self._narrowed(x, found)

    def _narrowed(self, x, found):
        """Of numbers of threads: bits of them, and what is the same for a warp."""
        if self._like_thread(x.sources[0]) and len(x.numbers) == 1 and len(set(x.sources)) == 1:
            n = x.numbers[0]
            if x.op.startswith("shr"):
                return found & ({WARPS} if n >= 5 else EVERY)
            if x.op.startswith("and"):
                if n > 0 and n < 32:
                    return frozenset([b for b in LANES if b & n])
                return found - {b for b in LANES if not b & n}
            if x.op.startswith("setp"):
                word = x.op.split(".")[1]
                if (word in ("lt", "ge", "lo", "hs") and n % 32 == 0) or (
                    word in ("gt", "le", "hi", "ls") and n % 32 == 31
                ):
                    return found & {WARPS}
        if x.op.startswith("setp") or not x.op.startswith((*_COMMUTE, "selp")):
            return found
        return found - {b for b in found & LANES if self._is_both(x, b)}

    def _like_thread(self, name, met=()):
        """Whether a register is a thread's number and a multiple of 32 that a warp shares."""
        if name.startswith("%tid") or name in met:
            return True
        made = self.made.get(name, ())
        return bool(made) and all(self._is_moved(x, (*met, name)) for x, _ in made)

    def _is_moved(self, x, met):
        """Whether an instruction gives such a number from another one."""
        if x.op.startswith("mad"):
            whole = bool(x.numbers) and not any(n % 32 for n in x.numbers)
            return whole and self._like_thread(x.sources[-1], met)
        if len(x.sources) == 1:
            if x.op.startswith(("add", "sub")) and any(n % 32 for n in x.numbers):
                return False
            return x.op.startswith(("mov", "cvt", "add", "sub", "or")) and self._like_thread(
                x.sources[0], met
            )
        if not x.op.startswith(("add", "or")) or len(x.sources) != 2:
            return False
        return any(
            self._is_multiple(b) and not self.differs.get(b, NONE) & LANES
            and self._like_thread(a, met)
            for a, b in (x.sources, x.sources[::-1])
        )  # fmt: skip

    def _is_multiple(self, name, met=()):
        """Whether a register is a multiple of 32."""
        made = self.made.get(name, ())
        each = [self._gives_multiple(x, (*met, name)) for x, _ in made if name not in met]
        return bool(made) and all(each)

    def _gives_multiple(self, x, met):
        numbers = not any(n % 32 for n in x.numbers)
        if x.op.startswith("shl"):
            return bool(x.numbers) and x.numbers[-1] >= 5
        if x.op.startswith("mul") and ((x.numbers and numbers) or self._any_multiple(x, met)):
            return True
        if any(r.startswith("%ntid") for r in x.sources):
            return True  # blocks have whole warps
        if x.op.startswith(("mov", "cvt", "add", "sub", "or")) and numbers:
            return all(self._is_multiple(r, met) for r in x.sources)
        return False

    def _any_multiple(self, x, met):
        return any(self._is_multiple(r, met) for r in x.sources)

    def _is_both(self, x, bit):
        """Whether an instruction combines a value with that of the thread with another bit."""
        leaves, waiting, count = set(), [*x.sources], 0
        while waiting:
            name = waiting.pop()
            if bit not in self.differs.get(name, NONE) and not name.startswith("%tid"):
                continue
            made = self.made.get(name, ())
            root = self._root(name)
            if len(made) == 1 and made[0][0].op.startswith("shfl.sync.bfly"):
                y = made[0][0]
                if y.numbers[0] == bit:
                    leaves.add((self._root(y.sources[0]), True))
                    continue
            if root in self.exchanged[bit]:
                leaves.add((root, False))
                continue
            count += 1
            if len(made) != 1 or count > DEEP or not made[0][0].sources:
                return False
            waiting += made[0][0].sources
        roots = {root for root, _ in leaves}
        return bool(roots) and all((r, True) in leaves and (r, False) in leaves for r in roots)

    def apart(self):
        """What threads do together, where only some of them come: lines, and by which they
        differ."""
        found = []
        for i, b in enumerate(self.blocks):
            reached = self._reached(i)
            for x in b.instructions:
                whole, warp = x.op.startswith(_BLOCK), x.op.startswith(_WARP)
                some = reached if whole else reached & LANES if warp else NONE
                if x.guard and (whole or warp):
                    some = some | (self.differs.get(x.guard, NONE) & (EVERY if whole else LANES))
                if some:
                    found.append((x.line, sorted(some)))
        return found
