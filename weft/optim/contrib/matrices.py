"""Updates of matrices as matrices: made orthogonal (Muon), or kept to a low rank (GaLore)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import weft
import weft.lax as lax
import weft.numpy as jnp
from weft.optim import base, tree
from weft.optim.moments import mean_correction, scale_by_adam, zero_count
from weft.optim.numerics import canonical_dtype, safe_increment
from weft.optim.optimisers import adamw
from weft.optim.scaling import scale_by_learning_rate
from weft.optim.transforms import MaskedNode, add_decayed_weights, chain, partition

NS_COEFFS = (3.4445, -4.775, 2.0315)
# The iterations of Dion's reference implementation, one row a step.
DION_NS_COEFFS = (
    (4.0848, -6.8946, 2.9270),
    (3.9505, -6.3029, 2.6377),
    (3.7418, -5.5913, 2.3037),
    (2.8769, -3.1427, 1.2046),
    (2.8366, -3.0525, 1.2012),
)
PRESETS = {"standard": NS_COEFFS, "dion": DION_NS_COEFFS}
PRECONDITIONINGS = ("frobenius", "spectral", "aol", "schatten")


class MuonDimensionNumbers(NamedTuple):
    """Which axes of a parameter are the rows and which the columns of its matrix."""

    reduction_axis: Any = 0
    output_axis: Any = 1


class MuonState(NamedTuple):
    """The step, the momentum and the coefficients of the iteration."""

    count: weft.Array
    mu: base.Updates
    ns_coeffs: weft.Array


class GaLoreDimensionNumbers(NamedTuple):
    """Which axes of a parameter are the rows and which the columns of its matrix."""

    reduction_axis: Any = 0
    output_axis: Any = 1


class GaLoreState(NamedTuple):
    """The step, the state of the optimiser of small matrices, and the projections to them."""

    count: weft.Array
    base_optimizer_state: base.OptState
    projector: base.Updates


def _axes(name, x, numbers):
    """The axes of rows and of columns, counted from the front."""
    if x.ndim < 2:
        raise ValueError(f"{name} takes parameters of two or more dimensions, got {x.shape}")
    rows, columns = (
        tuple(axis % x.ndim for axis in ((axes,) if isinstance(axes, int) else axes))
        for axes in numbers
    )
    if set(rows) & set(columns):
        raise ValueError(
            f"{name}: {numbers} uses an axis twice for a parameter of the shape {x.shape}"
        )
    return rows, columns


def _as_matrices(name, x, numbers):
    """Functions to a batch of matrices and back."""
    rows, columns = _axes(name, x, numbers)
    batch = tuple(axis for axis in range(x.ndim) if axis not in rows + columns)
    order = batch + rows + columns
    sizes = [math.prod(x.shape[axis] for axis in axes) for axes in (batch, rows, columns)]
    back = sorted(range(x.ndim), key=lambda axis: order[axis])

    def there(y):
        return y.transpose(order).reshape(sizes)

    def and_back(y):
        return y.reshape([x.shape[axis] for axis in order]).transpose(back)

    return there, and_back


def _iterate(x, coeffs, gram):
    """One step of Newton and Schulz: a·x + (b·g + c·g²)·x, with the Gram matrix g."""
    return coeffs[0] * x + (coeffs[1] * gram + coeffs[2] * gram @ gram) @ x


def _first_rescaled(x, coeffs, preconditioning, eps):
    """The first step on a matrix made small by its Gram matrix."""
    gram = x @ x.T.conj()
    if preconditioning == "aol":
        scale = lax.rsqrt(jnp.clip(jnp.abs(gram).sum(axis=-1), min=eps))[:, None]
        return _iterate(x * scale, coeffs, gram * scale * scale.T)
    scale = lax.rsqrt(jnp.clip(jnp.linalg.norm(gram), min=eps))
    return _iterate(x * scale, coeffs, gram * scale**2)


def orthogonalize(x, ns_coeffs, ns_steps, preconditioning, eps):
    """The nearest matrix with orthonormal rows or columns, about; by iteration."""
    if x.shape[0] > x.shape[1]:
        return orthogonalize(x.T, ns_coeffs, ns_steps, preconditioning, eps).T
    if preconditioning in ("frobenius", "spectral"):
        x = x / (jnp.linalg.norm(x, ord="fro" if preconditioning == "frobenius" else 2) + eps)
    coeffs = ns_coeffs.astype(x.dtype)
    if coeffs.ndim == 1:
        coeffs = [coeffs] * ns_steps
    for step, row in enumerate(coeffs):
        if step == 0 and preconditioning in ("aol", "schatten"):
            x = _first_rescaled(x, row, preconditioning, 1e-8)
        else:
            x = _iterate(x, row, x @ x.T.conj())
    return x


def _resolve(numbers, updates):
    return numbers(updates) if callable(numbers) else numbers


def _is_muon_numbers(node):
    return isinstance(node, MuonDimensionNumbers)


def scale_by_muon(
    ns_coeffs: Any = NS_COEFFS,
    ns_steps: int = 5,
    beta: base.Numeric = 0.95,
    eps: base.Numeric = 1e-08,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: str = "frobenius",
    weight_dimension_numbers: Any = None,
) -> base.GradientTransformation:
    """Momentum made orthogonal."""
    if preconditioning not in PRECONDITIONINGS:
        raise ValueError(
            f"muon: preconditioning must be one of {PRECONDITIONINGS}, got {preconditioning!r}"
        )
    mu_dtype = canonical_dtype(mu_dtype)

    def init(params):
        coeffs = jnp.asarray(ns_coeffs)
        if coeffs.ndim > 2 or coeffs.shape[-1] != 3:
            raise ValueError(f"muon: ns_coeffs must be 3 numbers or rows of 3, got {coeffs.shape}")
        if coeffs.ndim == 2:
            if coeffs.shape[0] > ns_steps:
                raise ValueError(f"muon: {coeffs.shape[0]} rows of ns_coeffs for {ns_steps} steps")
            coeffs = coeffs[-ns_steps:]
        return MuonState(zero_count(), tree.zeros_like(params, dtype=mu_dtype), coeffs)

    def orthogonal(x, numbers, coeffs):
        if x.ndim == 2:
            numbers = MuonDimensionNumbers()
        elif not _is_muon_numbers(numbers):
            raise ValueError(
                f"muon: a parameter of the shape {x.shape} needs MuonDimensionNumbers, "
                "in weight_dimension_numbers"
            )
        there, back = _as_matrices("muon", x, numbers)
        make = lambda m: orthogonalize(m, coeffs, ns_steps, preconditioning, eps)
        return back(weft.vmap(make)(there(x)))

    def update(updates, state, params=None):
        base.check_updates("scale_by_muon", updates, state.mu)
        numbers = _resolve(weight_dimension_numbers, updates)
        mu = tree.update_moment(updates, state.mu, beta, 1)
        count = safe_increment(state.count)
        mean = mean_correction(beta, count, nesterov)(updates, mu)
        if numbers is None or _is_muon_numbers(numbers):
            updates = weft.tree.map(lambda x: orthogonal(x, numbers, state.ns_coeffs), mean)
        else:
            updates = weft.tree.map(
                lambda x, n: orthogonal(x, n, state.ns_coeffs), mean, numbers,
                is_leaf=_is_muon_numbers,
            )  # fmt: skip
        if adaptive:
            updates = weft.tree.map(lambda m, u: jnp.sum(m.conj() * u) * u, mean, updates)
        return updates, MuonState(count, tree.cast(mu, mu_dtype), state.ns_coeffs)

    return base.GradientTransformation(init, update)


def scale_by_shape(weight_dimension_numbers, consistent_rms=None):
    """Scale matrices by the ratio of their sides, or to one root mean square."""

    def rescale(g, numbers):
        rows, columns = _axes("muon", g, numbers)
        fan_in, fan_out = (math.prod(g.shape[a] for a in axes) for axes in (rows, columns))
        if consistent_rms is None:
            return math.sqrt(max(1, fan_out / fan_in)) * g
        return math.sqrt(max(fan_in, fan_out)) * consistent_rms * g

    def update(updates, state, params=None):
        numbers = _resolve(weight_dimension_numbers, updates)
        return weft.tree.map(rescale, updates, numbers, is_leaf=_is_muon_numbers), state

    return base.GradientTransformation(base.init_empty_state, update)


def muon(
    learning_rate: base.ScalarOrSchedule,
    ns_coeffs: Any = NS_COEFFS,
    ns_steps: int = 5,
    beta: base.Numeric = 0.95,
    eps: base.Numeric = 1e-08,
    weight_decay: base.Numeric = 0.0,
    weight_decay_mask: base.MaskOrFn = None,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
    adaptive: bool = False,
    preconditioning: str = "frobenius",
    adam_b1: base.Numeric = 0.9,
    adam_b2: base.Numeric = 0.999,
    adam_eps_root: base.Numeric = 0.0,
    adam_weight_decay: base.Numeric = 0.0,
    adam_learning_rate: Any = None,
    muon_weight_dimension_numbers: Any = None,
    consistent_rms: Any = None,
) -> base.GradientTransformationExtraArgs:
    """Muon (Jordan et al., 2024): orthogonal updates for matrices, AdamW for the rest.

    Which parameters are matrices, and along which axes, is said by
    `muon_weight_dimension_numbers`: a tree of `MuonDimensionNumbers` or None, or a function of the
    parameters that gives one; by default those of two dimensions.
    """
    if isinstance(ns_coeffs, str):
        if ns_coeffs not in PRESETS:
            raise ValueError(f"muon: ns_coeffs must be one of {list(PRESETS)}, got {ns_coeffs!r}")
        ns_coeffs = PRESETS[ns_coeffs]

    def ends(node):
        return node is None or _is_muon_numbers(node)

    def numbers_of(params):
        """Numbers for every matrix, `MaskedNode` for the rest."""
        if muon_weight_dimension_numbers is None:
            return weft.tree.map(
                lambda x: MuonDimensionNumbers() if x.ndim == 2 else MaskedNode(), params
            )
        numbers = _resolve(muon_weight_dimension_numbers, params)

        def spread(number, below):
            return weft.tree.map(lambda _: MaskedNode() if number is None else number, below)

        return weft.tree.map(spread, numbers, params, is_leaf=ends)

    def labels(params):
        is_leaf = lambda node: isinstance(node, (MaskedNode, MuonDimensionNumbers))
        return weft.tree.map(
            lambda n: "muon" if _is_muon_numbers(n) else "adam", numbers_of(params), is_leaf=is_leaf
        )

    def visible_numbers(updates):
        """Numbers for updates in which what is not a matrix is already hidden."""
        hidden = lambda node: isinstance(node, MaskedNode)
        if muon_weight_dimension_numbers is None or not any(
            hidden(leaf) for leaf in weft.tree.leaves(updates, is_leaf=hidden)
        ):
            return numbers_of(updates)
        numbers = _resolve(muon_weight_dimension_numbers, updates)

        def spread(number, below):
            return weft.tree.map(lambda x: x if hidden(x) else number, below, is_leaf=hidden)

        return weft.tree.map(spread, numbers, updates, is_leaf=lambda n: ends(n) or hidden(n))

    matrices = chain(
        scale_by_muon(
            ns_coeffs, ns_steps, beta, eps, mu_dtype, nesterov=nesterov, adaptive=adaptive,
            preconditioning=preconditioning, weight_dimension_numbers=visible_numbers,
        ),
        scale_by_shape(visible_numbers, consistent_rms),
        add_decayed_weights(weight_decay, weight_decay_mask),
        scale_by_learning_rate(learning_rate),
    )  # fmt: skip
    others = adamw(
        learning_rate if adam_learning_rate is None else adam_learning_rate,
        adam_b1, adam_b2, eps, adam_eps_root, mu_dtype, adam_weight_decay, nesterov=nesterov,
    )  # fmt: skip
    return partition({"muon": matrices, "adam": others}, labels)


def scale_by_galore(
    rank: int = 128,
    update_proj_gap: int = 200,
    scale: base.Numeric = 1.0,
    base_optimizer: base.GradientTransformation = None,
    weight_dimension_numbers: Any = None,
) -> base.GradientTransformation:
    """Run another optimiser on gradients projected to a low rank, and project its updates back.

    Every `update_proj_gap` steps the projection is made anew, from the singular vectors of the
    gradient.
    """
    base_optimizer = scale_by_adam() if base_optimizer is None else base_optimizer
    if not isinstance(rank, int):
        raise TypeError(f"galore: rank must be an int, got {rank!r}")
    if rank <= 0:
        raise ValueError(f"galore: rank must be positive, got {rank}")

    def numbers_for(leaves, structure):
        """For every leaf, its dimension numbers or None."""
        numbers = weight_dimension_numbers
        if numbers is None:
            return [GaLoreDimensionNumbers() if p.ndim == 2 else None for p in leaves]
        if isinstance(numbers, GaLoreDimensionNumbers):
            return [numbers if p.ndim >= 2 else None for p in leaves]
        numbers = _resolve(numbers, structure.unflatten(leaves))
        ends = lambda n: n is None or isinstance(n, GaLoreDimensionNumbers)
        return weft.tree.leaves(numbers, is_leaf=ends)

    def matrix(x, numbers):
        rows, columns = _axes("galore", x, numbers)
        if len(rows) + len(columns) != x.ndim:
            raise ValueError(
                f"galore: {numbers} leaves out axes of a parameter of the shape {x.shape}"
            )
        there, back = _as_matrices("galore", x, numbers)
        return there(x)[0], lambda y: back(y[None])

    def first(p, numbers):
        if numbers is None:
            return jnp.zeros((0, 0), dtype=p.dtype), jnp.zeros_like(p)
        rows, columns = matrix(p, numbers)[0].shape
        small = min(rank, rows, columns)
        if rows >= columns:
            shapes = (rows, small), (small, columns)
        else:
            shapes = (columns, small), (rows, small)
        return tuple(jnp.zeros(shape, dtype=p.dtype) for shape in shapes)

    def init(params):
        leaves, structure = weft.tree.flatten(params)
        pairs = [first(p, n) for p, n in zip(leaves, numbers_for(leaves, structure), strict=True)]
        projectors, small = zip(*pairs, strict=True) if pairs else ((), ())
        inner = base_optimizer.init(structure.unflatten(small))
        return GaLoreState(zero_count(), inner, structure.unflatten(projectors))

    def project(g, projector, numbers, renew):
        if numbers is None:
            return g, projector
        x, _ = matrix(g, numbers)
        small, tall = min(rank, *x.shape), x.shape[0] >= x.shape[1]

        def singular_vectors():
            u, _, vh = jnp.linalg.svd(x.astype(jnp.float32), full_matrices=False)
            return (u[:, :small] if tall else vh[:small, :].T).astype(g.dtype)

        projector = lax.cond(renew, singular_vectors, lambda: projector)
        return (projector.T @ x if tall else x @ projector), projector

    def project_back(update, projector, g, numbers):
        if numbers is None:
            return update
        x, back = matrix(g, numbers)
        full = projector @ update if x.shape[0] >= x.shape[1] else update @ projector.T
        return (scale * back(full)).astype(g.dtype)

    def update(updates, state, params=None):
        base.check_updates("scale_by_galore", updates, state.projector)
        leaves, structure = weft.tree.flatten(updates)
        numbers = numbers_for(leaves, structure)
        renew = state.count % update_proj_gap == 0
        pairs = [
            project(g, projector, n, renew)
            for g, projector, n in zip(
                leaves, weft.tree.leaves(state.projector), numbers, strict=True
            )
        ]
        small, projectors = zip(*pairs, strict=True) if pairs else ((), ())
        steps, inner = base_optimizer.update(
            structure.unflatten(small), state.base_optimizer_state, None
        )
        full = [
            project_back(*parts)
            for parts in zip(weft.tree.leaves(steps), projectors, leaves, numbers, strict=True)
        ]
        return structure.unflatten(full), GaLoreState(
            safe_increment(state.count), inner, structure.unflatten(projectors)
        )

    return base.GradientTransformation(init, update)


def galore(
    learning_rate: base.ScalarOrSchedule,
    rank: int = 128,
    update_proj_gap: int = 200,
    scale: base.Numeric = 1.0,
    base_optimizer: base.GradientTransformation = None,
    weight_decay: base.Numeric = 0.0,
    mask: base.MaskOrFn = None,
    weight_dimension_numbers: Any = None,
) -> base.GradientTransformationExtraArgs:
    """GaLore (Zhao et al., 2024): Adam's state at a low rank."""
    return chain(
        scale_by_galore(rank, update_proj_gap, scale, base_optimizer, weight_dimension_numbers),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )
