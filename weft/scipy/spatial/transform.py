"""Rotations in three dimensions: ``weft.scipy.spatial.transform``.

A rotation is a unit quaternion (x, y, z, w), or an array of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import weft.numpy as jnp
from weft import random
from weft.core.array import Array
from weft.numpy import promotion

__all__ = ["Rotation", "Slerp"]


def _inexact(x: Any) -> Array:
    (array,) = promotion.promote_dtypes_inexact(jnp.asarray(x))
    return array.astype(array.dtype)  # no longer of weak type


def _normalized(q: Array) -> Array:
    return q / jnp.sqrt((q * q).sum(axis=-1, keepdims=True))


def _product(p: Array, q: Array) -> Array:
    """The quaternion of first q, then p."""
    u, a = p[..., :3], p[..., 3:]
    v, b = q[..., :3], q[..., 3:]
    u, v = jnp.broadcast_arrays(u, v)
    vector = a * v + b * u + jnp.cross(u, v)
    return jnp.concatenate([vector, a * b - (u * v).sum(axis=-1, keepdims=True)], axis=-1)


def _length(v: Array) -> tuple[Array, Array]:
    """The length of vectors, kept as an axis, and where it is not 0; with derivatives there too."""
    square = (v * v).sum(axis=-1, keepdims=True)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), 0), some


class Rotation(NamedTuple):
    """A rotation in space, or an array of rotations; ``from_euler`` and its siblings make one.

    Args:
        quat: the quaternions (x, y, z, w), of length 1 along the last axis.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.spatial.transform import Rotation
        >>> turn = Rotation.from_euler("z", 90.0, degrees=True)
        >>> turn.apply(jnp.array([0.0, -2.0, 1.0])).round(3)
        Array([2., 0., 1.], dtype=float32)
    """

    quat: Array

    @classmethod
    def from_quat(cls, quat: Any) -> Rotation:
        """From quaternions (x, y, z, w), which are scaled to length 1."""
        return cls(_normalized(_inexact(quat)))

    @classmethod
    def from_matrix(cls, matrix: Any) -> Rotation:
        """From orthogonal matrices of determinant 1."""
        m = _inexact(matrix)
        trace = m[..., 0, 0] + m[..., 1, 1] + m[..., 2, 2]
        # four times a component of the quaternion times all of it; the largest divides best
        rows = []
        for i in range(3):
            j, k = (i + 1) % 3, (i + 2) % 3
            row: list[Any] = [None] * 4
            row[i] = 1 - trace + 2 * m[..., i, i]
            row[j] = m[..., j, i] + m[..., i, j]
            row[k] = m[..., k, i] + m[..., i, k]
            row[3] = m[..., k, j] - m[..., j, k]
            rows.append(jnp.stack(row, axis=-1))
        axis = [
            m[..., (i + 2) % 3, (i + 1) % 3] - m[..., (i + 1) % 3, (i + 2) % 3] for i in range(3)
        ]
        rows.append(jnp.stack([*axis, 1 + trace], axis=-1))
        sizes = jnp.stack([*(m[..., i, i] for i in range(3)), trace], axis=-1)
        best = jnp.argmax(sizes, axis=-1)[..., None, None]
        q = jnp.take_along_axis(jnp.stack(rows, axis=-2), best, axis=-2)[..., 0, :]
        return cls(_normalized(q))

    @classmethod
    def from_rotvec(cls, rotvec: Any, degrees: bool = False) -> Rotation:
        """From vectors along the axis, as long as the angle."""
        v = _inexact(rotvec)
        v = jnp.deg2rad(v) if degrees else v
        angle, some = _length(v)
        ratio = jnp.where(some, jnp.sin(angle / 2) / jnp.where(some, angle, 1), 0.5)
        return cls(jnp.concatenate([ratio * v, jnp.cos(angle / 2)], axis=-1))

    @classmethod
    def from_mrp(cls, mrp: Any) -> Rotation:
        """From modified Rodrigues parameters: the axis times tan(angle / 4)."""
        v = _inexact(mrp)
        square = (v * v).sum(axis=-1, keepdims=True)
        return cls(jnp.concatenate([2 * v, 1 - square], axis=-1) / (1 + square))

    @classmethod
    def from_euler(cls, seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """From angles about one to three axes: fixed ones (xyz), or ones that turn along (XYZ)."""
        axes, extrinsic = _axes(seq)
        values = _inexact(angles)
        values = jnp.deg2rad(values) if degrees else values
        if len(axes) == 1 and (values.ndim == 0 or values.shape[-1:] != (1,)):
            values = values[..., None]
        if values.shape[-1:] != (len(axes),):
            raise ValueError(f"{len(axes)} angles are needed for {seq!r}, got shape {values.shape}")
        q: Any = None
        for i, axis in enumerate(axes):
            half = values[..., i] / 2
            parts = [jnp.zeros_like(half)] * 3
            parts[axis] = jnp.sin(half)
            step = jnp.stack([*parts, jnp.cos(half)], axis=-1)
            if q is None:
                q = step
            else:
                q = _product(step, q) if extrinsic else _product(q, step)
        return cls(q)

    @classmethod
    def identity(cls, num: int | None = None, dtype: Any = float) -> Rotation:
        """The rotation that changes nothing, or ``num`` of it."""
        q = jnp.asarray([0, 0, 0, 1], dtype)
        return cls(q if num is None else jnp.broadcast_to(q, (num, 4)))

    @classmethod
    def random(cls, random_key: Any, num: int | None = None) -> Rotation:
        """A rotation drawn uniformly, or ``num`` of them."""
        return cls.from_quat(random.normal(random_key, (4,) if num is None else (num, 4)))

    @classmethod
    def concatenate(cls, rotations: Sequence[Rotation]) -> Rotation:
        """Rotations one after the other in one array."""
        return cls(jnp.concatenate([jnp.atleast_2d(r.quat) for r in rotations]))

    @property
    def single(self) -> bool:
        """Whether this is one rotation, not an array of them."""
        return self.quat.ndim == 1

    def __getitem__(self, indexer: Any) -> Rotation:  # type: ignore[override]
        if self.single:
            raise TypeError("a single rotation can't be indexed")
        return Rotation(self.quat[indexer])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("one rotation has no len()")
        return int(self.quat.shape[0])

    def __mul__(self, other: Any) -> Rotation:  # type: ignore[override]
        """First the other, then this."""
        return Rotation(_normalized(_product(self.quat, other.quat)))

    def apply(self, vectors: Any, inverse: bool = False) -> Array:
        """Vectors, rotated."""
        v = _inexact(vectors)
        if v.shape[-1:] != (3,):
            raise ValueError(f"vectors have three components, got shape {v.shape}")
        matrix = self.as_matrix()
        return jnp.einsum("...kj,...k->...j" if inverse else "...jk,...k->...j", matrix, v)

    def as_quat(self, canonical: bool = False, scalar_first: bool = False) -> Array:
        """Quaternions; of canonical ones the first of w, x, y, z that is not 0 is positive."""
        q = self.quat
        if canonical:
            x, y, z, w = (q[..., i] for i in range(4))
            negative = (w < 0) | (
                (w == 0) & ((x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0)))))
            )
            q = jnp.where(negative[..., None], -q, q)
        return jnp.roll(q, 1, axis=-1) if scalar_first else q

    def as_matrix(self) -> Array:
        """Orthogonal matrices."""
        x, y, z, w = (self.quat[..., i] for i in range(4))
        rows = [
            [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
            [2 * (x * y + z * w), -x * x + y * y - z * z + w * w, 2 * (y * z - x * w)],
            [2 * (x * z - y * w), 2 * (y * z + x * w), -x * x - y * y + z * z + w * w],
        ]
        return jnp.stack([jnp.stack(row, axis=-1) for row in rows], axis=-2)

    def as_rotvec(self, degrees: bool = False) -> Array:
        """Vectors along the axis, as long as the angle, which is at most π."""
        q = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        length, some = _length(q[..., :3])
        angle = 2 * jnp.arctan2(length, q[..., 3:])
        v = jnp.where(some, angle / jnp.where(some, length, 1), 2) * q[..., :3]
        return jnp.rad2deg(v) if degrees else v

    def as_mrp(self) -> Array:
        """Modified Rodrigues parameters, at most 1 long."""
        q = jnp.where(self.quat[..., 3:] < 0, -self.quat, self.quat)
        return q[..., :3] / (1 + q[..., 3:])

    def as_euler(self, seq: str, degrees: bool = False) -> Array:
        """Angles about three axes; where two of them coincide the last angle is 0.

        (Bernardes and Viollet, 2022.)
        """
        axes, extrinsic = _axes(seq)
        if len(axes) != 3:
            raise ValueError(f"as_euler needs three axes, got {seq!r}")
        angles = _euler_angles(self.quat, axes if extrinsic else axes[::-1], extrinsic)
        return jnp.rad2deg(angles) if degrees else angles

    @promotion.mixes_inside
    def inv(self) -> Rotation:
        """The rotation back."""
        return Rotation(self.quat * np.array([-1, -1, -1, 1], self.quat.dtype))

    def magnitude(self) -> Array:
        """The angle, at most π."""
        length, _ = _length(self.quat[..., :3])
        return 2 * jnp.arctan2(length[..., 0], jnp.abs(self.quat[..., 3]))

    @promotion.mixes_inside
    def mean(self, weights: Any = None) -> Rotation:
        """The rotation nearest to all, by weights."""
        q = self.quat
        count = len(self)
        w = jnp.ones(count, q.dtype) if weights is None else jnp.asarray(weights, q.dtype)
        if w.shape != (count,):
            raise ValueError(f"mean needs {count} weights, one for each, got shape {w.shape}")
        _, vectors = jnp.linalg.eigh((q.T * w) @ q)
        return Rotation(vectors[:, -1])


def _axes(seq: str) -> tuple[list[int], bool]:
    """The axes of a sequence as numbers, and whether they stay fixed."""
    if not 0 < len(seq) <= 3:
        raise ValueError(f"a sequence of axes has one to three letters, got {seq!r}")
    extrinsic = set(seq) <= set("xyz")
    if not extrinsic and not set(seq) <= set("XYZ"):
        raise ValueError(f"the axes are all of x, y, z or all of X, Y, Z, got {seq!r}")
    axes = ["xyz".index(letter) for letter in seq.lower()]
    if any(a == b for a, b in pairwise(axes)):
        raise ValueError(f"an axis can't follow itself, got {seq!r}")
    return axes, extrinsic


def _euler_angles(q: Array, axes: list[int], extrinsic: bool) -> Array:
    i, j, k = axes
    symmetric = i == k
    if symmetric:
        k = 3 - i - j
    sign = (i - j) * (j - k) * (k - i) // 2
    p = [q[..., n] for n in range(4)]
    if symmetric:
        a, b, c, d = p[3], p[i], p[j], p[k] * sign
    else:
        a, b = p[3] - p[j], p[i] + p[k] * sign
        c, d = p[j] + p[3], p[k] * sign - p[i]
    middle = 2 * jnp.arctan2(jnp.hypot(c, d), jnp.hypot(a, b))
    half_sum, half_difference = jnp.arctan2(b, a), jnp.arctan2(d, c)
    near = max(1e-7, 4 * float(jnp.finfo(q.dtype).eps))
    at_zero, at_pi = jnp.abs(middle) <= near, jnp.abs(middle - np.pi) <= near
    first, third = half_sum - half_difference, half_sum + half_difference
    if not extrinsic:
        first, third = third, first
    turned = -2 * half_difference if extrinsic else 2 * half_difference
    first = jnp.where(at_zero, 2 * half_sum, jnp.where(at_pi, turned, first))
    third = jnp.where(at_zero | at_pi, 0, third)
    if not symmetric:
        middle = middle - np.pi / 2
        if extrinsic:
            third = third * sign
        else:
            first = first * sign
    angles = jnp.stack([first, middle, third], axis=-1)
    return jnp.where(
        angles < -np.pi, angles + 2 * np.pi, jnp.where(angles > np.pi, angles - 2 * np.pi, angles)
    )


class Slerp(NamedTuple):
    """Rotations at times, and between them along the shortest path at constant speed; see ``init``.

    Args:
        times: the times, in ascending order.
        timedelta: the time from each rotation to the next.
        rotations: the rotations at these times, without the last.
        rotvecs: the rotation vector from each rotation to the next.

    Example:
        >>> import weft.numpy as jnp
        >>> from weft.scipy.spatial.transform import Rotation, Slerp
        >>> ends = Rotation.from_euler("z", jnp.array([[0.0], [90.0]]), degrees=True)
        >>> between = Slerp.init(jnp.array([0.0, 1.0]), ends)
        >>> between(0.5).as_rotvec(degrees=True).round(2)
        Array([ 0.,  0., 45.], dtype=float32)
    """

    times: Array
    timedelta: Array
    rotations: Rotation
    rotvecs: Array

    @classmethod
    def init(cls, times: Any, rotations: Rotation) -> Slerp:
        """From times in rising order and as many rotations."""
        times = _inexact(times)
        if rotations.single or len(rotations) < 2:
            raise ValueError("Slerp needs at least two rotations")
        if times.ndim != 1:
            raise ValueError(f"Slerp needs a vector of times, got shape {times.shape}")
        if times.shape[0] != len(rotations):
            raise ValueError(f"Slerp got {times.shape[0]} times and {len(rotations)} rotations")
        starts = rotations[:-1]
        ways = (starts.inv() * rotations[1:]).as_rotvec()
        return cls(times, jnp.diff(times), starts, ways)

    @promotion.mixes_inside
    def __call__(self, times: Any) -> Rotation:
        """The rotations at times."""
        t = _inexact(times)
        if t.ndim > 1:
            raise ValueError(f"Slerp takes a time or a vector of them, got shape {t.shape}")
        i = jnp.clip(jnp.searchsorted(self.times, t) - 1, 0, self.timedelta.shape[0] - 1)
        part = (t - self.times[i]) / self.timedelta[i]
        return self.rotations[i] * Rotation.from_rotvec(self.rotvecs[i] * part[..., None])
