"""Samples of distributions that are drawn for by rejection."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from weft.backends.cpu.routines.draws import sampling_kernels as kernels
from weft.backends.cpu.routines.draws import sampling_stubs as stubs
from weft.backends.cpu.routines.registry import LOWERINGS
from weft.backends.llvm.code import Module, hole
from weft.backends.llvm.tasks import Lowered, Place, Task
from weft.backends.llvm.text.scalar_math import translate_with_math
from weft.base.functional import lru
from weft.kernel.counts import MOST
from weft.kernel.kinds import kind_of
from weft.kernel.nodes import F32, F64
from weft.kernel.program import Type

# Elements of a piece of work that tells others of its turns.
PIECE = 1 << 12
# Samples of a key from which on blocks are of one key each.
MIN_SAMPLES_PER_KEY = 64
# Holes in modules that are kept: how many samples there are of a key, and pieces of those.
EACH, PIECES = hole("EACH"), hole("PIECES")


def _known(keys: Type, like: Type) -> bool:
    """Whether the kernels draw as the reference does."""
    fry = keys.dtype.name == "key<fry>"
    return fry and like.dtype in (F32, F64) and _sizes(keys, like)[1] <= 1 << 32


def _sizes(keys: Type, like: Type) -> tuple[int, int]:
    """How many samples there are, and how many of each key."""
    count = prod(like.shape)
    return count, max(count // max(prod(keys.shape), 1), 1)


def random_gamma(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """Samples for keys of Threefry, in float32 and float64."""
    keys, alphas = ins
    if not _known(keys, alphas):
        return None
    count, each = _sizes(keys, alphas)
    shared = each >= MIN_SAMPLES_PER_KEY
    texts = kernels.gamma_kernels(alphas.dtype, params["log_space"], shared)
    codes = [Place("code", code) for code in zip(texts, ("begin", "attempt", "end"), strict=True)]
    places = (Place("in", 0), Place("in", 1), *codes, Place("out", 0))
    module = _gamma(alphas.dtype, shared).filled({"EACH": str(each)})
    return Lowered([Task(module, "gamma", places, count, kernels.ROOM)])


@lru(64)
def _gamma(dtype: np.dtype, shared: bool) -> Module:
    names = {"F": kind_of(dtype), "SIZE": dtype.itemsize, "EACH": EACH}
    names |= {"ROOM": kernels.ROOM, "SHARED": int(shared)}
    small = (stubs.place, stubs.again, stubs.spread, stubs.cubes)
    return translate_with_math(stubs.gamma, names, plain=True, inline=small)


def random_poisson(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """Counts of Poisson distributions."""
    keys, lam = ins
    names = {"MASKED": 0, "NEXT": 0, "PLAIN": 1e5, "PLAIN_TRIALS": 0.0}
    return _counts(keys, lam, kernels.poisson_kernels, (1, 1, 1), names)


def random_binomial(ins: list[Type], outs: list[Type], params: dict[str, Any]) -> Lowered | None:
    """Counts of binomial distributions."""
    keys, trials = ins[:2]
    # waiting times go on with the second of two keys
    names = {"MASKED": 1, "NEXT": 1, "PLAIN": 0.5, "PLAIN_TRIALS": 1e4}
    return _counts(keys, trials, kernels.binomial_kernels, (2, 1, 3), names)


def _counts(
    keys: Type, like: Type, make: Any, given: tuple[int, ...], names: dict[str, Any]
) -> Lowered | None:
    """Counts by two kernels; the operands are both parameters and who waits, by number."""
    if not _known(keys, like):
        return None
    count, each = _sizes(keys, like)
    codes = [Place("code", code) for code in zip(make(like.dtype), ("wait", "reject"), strict=True)]
    operands = [Place("in", i) for i in given]
    places = (Place("in", 0), *operands, *codes, Place("out", 0))
    names = {**names, "F": kind_of(like.dtype), "SIZE": like.dtype.itemsize, "EACH": EACH}
    names |= {"ROOM": kernels.ROOM, "MOST": MOST}
    if count != each:
        module = _counting(stubs.count_by_key, **names).filled({"EACH": str(each)})
        return Lowered([Task(module, "count_by_key", places, count // each, max(1, PIECE // each))])
    pieces = -(-count // PIECE)
    # the loop over a single piece is not written
    names |= {"PIECE": PIECE, "PIECES": 1 if pieces == 1 else PIECES}
    places = (*places, Place("scratch", 0), Place("scratch", 1))
    tasks = []
    for f in (stubs.count_few, stubs.count_turns, stubs.count_many):
        module = _counting(f, **names).filled({"EACH": str(each), "PIECES": str(pieces)})
        tasks.append(Task(module, f.__name__, places, count, PIECE))
    return Lowered(tasks, (8 * pieces, 8 * pieces))


@lru(64)
def _counting(main: Any, **names: Any) -> Module:
    small = (stubs.is_few, stubs.joined, stubs.key_of, stubs.put_key)
    return translate_with_math(main, names, plain=True, inline=small)


LOWERINGS["random_gamma"] = random_gamma
LOWERINGS["random_poisson"] = random_poisson
LOWERINGS["random_binomial"] = random_binomial
