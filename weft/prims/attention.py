"""Attention as one operation, which the compiler finds in programs for targets that have it.

It is not for users: programs are differentiated and batched before it is found.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weft.core.avals import ShapedArray
from weft.core.primitive import Primitive

_HOLES = {
    "jvp": "the compiler introduces it after differentiation",
    "transpose": "the compiler introduces it after differentiation",
    "batch": "the compiler introduces it after batching",
}
CANONICAL = "bhtd"


def _axes(order: str) -> list[int]:
    return [order.index(letter) for letter in CANONICAL]


def _canonical(x: np.ndarray, order: str) -> np.ndarray:
    return x.transpose(_axes(order)).astype(np.float64)


def _sizes(aval: Any, order: str) -> dict[str, int]:
    return dict(zip(order, aval.shape, strict=True))


def _check(avals: Any, orders: Any) -> None:
    """Raise unless queries, keys and values fit each other."""
    if any(
        sorted(order) != sorted(CANONICAL) or len(a.shape) != 4
        for a, order in zip(avals, orders, strict=False)
    ):
        raise ValueError(f"attention got axes {orders}")
    q, k, v = (_sizes(a, order) for a, order in zip(avals[:3], orders, strict=False))
    if k != v or any(q[c] != k[c] for c in "bd") or not k["h"] or q["h"] % k["h"]:
        raise ValueError(f"attention got shapes {', '.join(str(a.shape) for a in avals[:3])}")


def _scores(q: np.ndarray, k: np.ndarray, scale: float, causal: int | None) -> np.ndarray:
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    if causal is None:
        return scores
    rows, columns = (np.arange(n) for n in scores.shape[2:])
    return np.where(columns <= rows[:, None] + causal, scores, -np.inf)


def _weights(q: np.ndarray, k: np.ndarray, scale: float, causal: int | None) -> Any:
    """Softmax of scores, and the logarithm, base 2, of each row's sum."""
    scores = _scores(q, k, scale, causal)
    most = scores.max(-1, keepdims=True)
    raw = np.exp(scores - most)
    total = raw.sum(-1, keepdims=True)
    return raw / total, ((most + np.log(total)) * np.log2(np.e))[..., 0]


class Attention(Primitive):
    """softmax(scale q kᵀ) v, and the logarithm, base 2, of what each row's weights were divided by.

    ``orders`` says which axes are batch, head, row (t) and depth; ``causal`` is None, or
    n where row i sees columns up to i + n. Several heads of queries may share one of keys.
    """

    name = "attention"
    host = "used only for targets that have a kernel for it"
    multiple_results = True
    holes = _HOLES

    def shape(self, q: Any, k: Any, v: Any, *, orders: Any, scale: float, causal: Any) -> list[Any]:
        _check((q, k, v), orders)
        sizes = _sizes(q, orders[0])
        rows = tuple(sizes[letter] for letter in "bht")
        return [ShapedArray(q.shape, q.dtype), ShapedArray(rows, np.dtype(np.float32))]

    @staticmethod
    def ref(q: Any, k: Any, v: Any, *, orders: Any, scale: float, causal: Any) -> list[np.ndarray]:
        wide = [_canonical(x, order) for x, order in zip((q, k, v), orders, strict=False)]
        group = wide[0].shape[1] // wide[1].shape[1]
        keys, values = (np.repeat(x, group, 1) for x in wide[1:])
        weights, stats = _weights(wide[0], keys, scale, causal)
        out = (weights @ values).transpose(np.argsort(_axes(orders[0])))
        return [out.astype(q.dtype), stats.astype(np.float32)]


class AttentionBackward(Primitive):
    """Gradients of attention by queries, keys and values, each with the axes of its operand."""

    name = "attention_backward"
    host = "used only for targets that have a kernel for it"
    multiple_results = True
    holes = _HOLES

    def shape(self, *avals: Any, orders: Any, scale: float, causal: Any) -> list[Any]:
        _check(avals[:3], orders)
        return [ShapedArray(aval.shape, aval.dtype) for aval in avals[:3]]

    @staticmethod
    def ref(*args: Any, orders: Any, scale: float, causal: Any) -> list[np.ndarray]:
        q, k, v, o, stats, g = args
        of = zip((q, k, v, o, g), (*orders[:3], orders[0], orders[3]), strict=True)
        queries, few, _, outs, grads = wide = [_canonical(x, order) for x, order in of]
        group = queries.shape[1] // few.shape[1]
        keys, values = (np.repeat(x, group, 1) for x in wide[1:3])
        scores = _scores(queries, keys, scale, causal) * np.log2(np.e)
        weights = np.exp2(scores - stats.astype(np.float64)[..., None])
        changes = grads @ values.swapaxes(-1, -2)
        changes = weights * (changes - (grads * outs).sum(-1, keepdims=True)) * scale
        made = [changes @ keys]
        for x, y in ((changes, queries), (weights, grads)):
            whole = x.swapaxes(-1, -2) @ y
            batch, heads, rows, depth = whole.shape
            made.append(whole.reshape(batch, heads // group, group, rows, depth).sum(2))
        made = [x.transpose(np.argsort(_axes(o))) for x, o in zip(made, orders[:3], strict=True)]
        return [x.astype(like.dtype) for x, like in zip(made, (q, k, v), strict=True)]


class DecodeAttention(Primitive):
    """softmax(scale q kᵀ) v for one row of queries of each head, by batch, head and depth.

    ``sizes`` are batches, heads of queries, heads of keys, columns, and depth; ``places`` where
    queries, keys and values begin in their arrays, and the strides of batch, head and row there.
    With ``shift``, columns up to a number + the shift are seen: one number, or one for each batch.
    Where that are none, the result is the mean of all values, or without ``mean`` NaN.
    """

    name = "decode_attention"
    host = "used only for targets that have a kernel for it"
    multiple_results = True
    holes = _HOLES

    def shape(self, q: Any, k: Any, v: Any, *limit: Any, **params: Any) -> list[Any]:
        batch, heads, shared, _, depth = params["sizes"]
        if heads % shared:
            raise ValueError(f"decode_attention got {heads} heads of queries, {shared} of keys")
        return [ShapedArray((batch, heads, depth), q.dtype)]

    @staticmethod
    def ref(
        *args: Any, sizes: Any, places: Any, scale: float, shift: int | None, mean: bool
    ) -> list[np.ndarray]:
        batch, heads, shared, columns, depth = sizes
        counts = (batch, heads, 1), (batch, shared, columns), (batch, shared, columns)
        wide = []
        for x, count, (offset, *strides) in zip(args, counts, places, strict=False):
            at = np.tensordot([*strides, 1], np.indices((*count, depth)), 1) + offset
            wide.append(np.ravel(x)[at].astype(np.float64))
        queries, keys, values = wide[0], *(np.repeat(x, heads // shared, 1) for x in wide[1:])
        scores = np.einsum("bhqd,bhkd->bhk", queries, keys) * scale
        if shift is not None:
            seen = np.arange(columns) <= np.broadcast_to(args[3], batch)[:, None, None] + shift
            blank = 0.0 if mean else np.nan
            scores = np.where(seen, scores, np.where(seen.any(-1, keepdims=True), -np.inf, blank))
        raw = np.exp(scores - scores.max(-1, keepdims=True))
        weights = raw / raw.sum(-1, keepdims=True)
        return [np.einsum("bhk,bhkd->bhd", weights, values).astype(args[0].dtype)]


def _parts(x: Any, heads: tuple[int, int], depth: int) -> list[np.ndarray]:
    """Queries, keys and values, each by batch, row, head and depth, from the parts of rows."""
    many, few = heads
    ends = [many * depth, (many + few) * depth]
    return [y.reshape(*y.shape[:2], -1, depth) for y in np.split(x, ends, 2)]


class PackedAttention(Primitive):
    """Attention whose queries, keys and values are parts of each row of one array.

    ``heads`` are those of queries, and of keys and values. The result is by batch, row, head and
    depth.
    """

    name = "packed_attention"
    host = "used only for targets that have a kernel for it"
    multiple_results = True
    holes = _HOLES

    def shape(self, x: Any, *, heads: Any, depth: int, scale: float, causal: Any) -> list[Any]:
        batch, rows, width = x.shape
        if width != (heads[0] + 2 * heads[1]) * depth or heads[0] % heads[1]:
            raise ValueError(f"packed_attention got {x.shape} for {heads} heads of {depth}")
        made = ShapedArray((batch, rows, heads[0], depth), x.dtype)
        return [made, ShapedArray((batch, heads[0], rows), np.dtype(np.float32))]

    @staticmethod
    def ref(x: Any, *, heads: Any, depth: int, scale: float, causal: Any) -> list[np.ndarray]:
        parts = _parts(x, heads, depth)
        return Attention.ref(*parts, orders=("bthd",) * 3, scale=scale, causal=causal)


class PackedAttentionBackward(Primitive):
    """The gradient of packed attention, an array like its operand."""

    name = "packed_attention_backward"
    host = "used only for targets that have a kernel for it"
    multiple_results = True
    holes = _HOLES

    def shape(self, x: Any, *more: Any, **params: Any) -> list[Any]:
        return [ShapedArray(x.shape, x.dtype)]

    @staticmethod
    def ref(*args: Any, heads: Any, depth: int, scale: float, causal: Any) -> list[np.ndarray]:
        x, out, stats, grads = args
        parts = _parts(x, heads, depth)
        params = {"orders": ("bthd",) * 4, "scale": scale, "causal": causal}
        made = AttentionBackward.ref(*parts, out, stats, grads, **params)
        return [np.concatenate([y.reshape(*y.shape[:2], -1) for y in made], 2)]


attention_p, attention_backward_p = Attention(), AttentionBackward()
decode_attention_p = DecodeAttention()
packed_attention_p = PackedAttention()
packed_attention_backward_p = PackedAttentionBackward()
