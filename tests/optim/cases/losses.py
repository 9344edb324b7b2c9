"""Losses: values, and gradients of their sum with respect to the first argument."""

import numpy as np

from tests.optim.harness import Case

DRAW = np.random.RandomState(7)
LOGITS = 2 * DRAW.standard_normal((4, 5))
OTHER = DRAW.standard_normal((4, 5))
THIRD = DRAW.standard_normal((4, 5))
PROBS = np.exp(OTHER) / np.exp(OTHER).sum(-1, keepdims=True)
ZEROED = np.where(PROBS < 0.1, 0.0, PROBS)
CLASSES = np.array([0, 3, 2, 4], np.int32)
SIGNS = np.sign(OTHER)
BITS = (OTHER > 0).astype(np.float64)
WHERE = np.abs(OTHER) > 0.4
LOGS = np.log(PROBS)
IMAGES = DRAW.standard_normal((2, 3, 4, 3))
MASKS = np.eye(3)[DRAW.randint(0, 3, (2, 3, 4))]
FRAMES = DRAW.standard_normal((2, 6, 4))
FRAME_PADS = np.array([[0.0] * 6, [0.0] * 4 + [1.0] * 2])
LABELS = np.array([[1, 2, 2], [3, 1, 0]], np.int32)
LABEL_PADS = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])


def value_and_grad(call, first, *rest):
    """A case from `call(losses, first, *rest)`."""

    def run(L):
        rest_ = [L.array(x) for x in rest]
        value = call(L.optim.losses, L.array(first), *rest_)

        def total(x):
            values = L.jax.tree.leaves(call(L.optim.losses, x, *rest_))
            return sum(L.jnp.sum(v) for v in values)

        return value, L.jax.grad(total)(L.array(first))

    return run


V = {
    "squared_error": value_and_grad(lambda o, x, y: o.squared_error(x, y), LOGITS, OTHER),
    "squared_error_alone": value_and_grad(lambda o, x: o.squared_error(x), LOGITS),
    "l2_loss": value_and_grad(lambda o, x, y: o.l2_loss(x, y), LOGITS, OTHER),
    "huber_loss": value_and_grad(lambda o, x, y: o.huber_loss(x, y), LOGITS, OTHER),
    "huber_loss_delta": value_and_grad(lambda o, x: o.huber_loss(x, delta=0.5), LOGITS),
    "log_cosh": value_and_grad(lambda o, x, y: o.log_cosh(x, y), 10 * LOGITS, OTHER),
    "cosine_similarity": value_and_grad(lambda o, x, y: o.cosine_similarity(x, y), LOGITS, OTHER),
    "cosine_similarity_all": value_and_grad(
        lambda o, x, y, w: o.cosine_similarity(x, y, epsilon=0.1, axis=0, where=w),
        LOGITS,
        OTHER,
        WHERE,
    ),
    "cosine_distance": value_and_grad(lambda o, x, y: o.cosine_distance(x, y), LOGITS, OTHER),
    "sigmoid_binary_cross_entropy": value_and_grad(
        lambda o, x, y: o.sigmoid_binary_cross_entropy(x, y), 5 * LOGITS, BITS
    ),
    "sigmoid_binary_cross_entropy_integers": value_and_grad(
        lambda o, x, y: o.sigmoid_binary_cross_entropy(x, y), LOGITS, BITS.astype(np.int32)
    ),
    "sigmoid_focal_loss": value_and_grad(
        lambda o, x, y: o.sigmoid_focal_loss(x, y), 3 * LOGITS, BITS
    ),
    "sigmoid_focal_loss_alpha": value_and_grad(
        lambda o, x, y: o.sigmoid_focal_loss(x, y, alpha=0.3, gamma=1.0), LOGITS, BITS
    ),
    "hinge_loss": value_and_grad(lambda o, x, y: o.hinge_loss(x, y), LOGITS, SIGNS),
    "perceptron_loss": value_and_grad(lambda o, x, y: o.perceptron_loss(x, y), LOGITS, SIGNS),
    "sparsemax_loss": value_and_grad(lambda o, x, y: o.sparsemax_loss(x, y), LOGITS, BITS),
    "safe_softmax_cross_entropy": value_and_grad(
        lambda o, x, y: o.safe_softmax_cross_entropy(x, y),
        np.where(ZEROED == 0, -np.inf, LOGITS),
        ZEROED,
    ),
    "softmax_cross_entropy": value_and_grad(
        lambda o, x, y: o.softmax_cross_entropy(x, y), LOGITS, PROBS
    ),
    "softmax_cross_entropy_where": value_and_grad(
        lambda o, x, y, w: o.softmax_cross_entropy(x, y, axis=0, where=w), LOGITS, PROBS, WHERE
    ),
    "integer_labels": value_and_grad(
        lambda o, x, y: o.softmax_cross_entropy_with_integer_labels(x, y), LOGITS, CLASSES
    ),
    "integer_labels_axis": value_and_grad(
        lambda o, x, y: o.softmax_cross_entropy_with_integer_labels(x, y, axis=0),
        LOGITS,
        np.array([0, 1, 2, 3, 0], np.int32),
    ),
    "integer_labels_axes": value_and_grad(
        lambda o, x, y: o.softmax_cross_entropy_with_integer_labels(x, y, axis=(0, 2)),
        IMAGES[0],
        np.array([5, 0, 7, 8], np.int32),
    ),
    "integer_labels_where": value_and_grad(
        lambda o, x, y, w: o.softmax_cross_entropy_with_integer_labels(x, y, where=w),
        LOGITS,
        CLASSES,
        WHERE,
    ),
    "multiclass_hinge_loss": value_and_grad(
        lambda o, x, y: o.multiclass_hinge_loss(x, y), LOGITS, CLASSES
    ),
    "multiclass_perceptron_loss": value_and_grad(
        lambda o, x, y: o.multiclass_perceptron_loss(x, y), LOGITS, CLASSES
    ),
    "multiclass_sparsemax_loss": value_and_grad(
        lambda o, x, y: o.multiclass_sparsemax_loss(x, y), LOGITS, CLASSES
    ),
    "poly_loss_cross_entropy": value_and_grad(
        lambda o, x, y: o.poly_loss_cross_entropy(x, y), LOGITS, PROBS
    ),
    "kl_divergence": value_and_grad(lambda o, x, y: o.kl_divergence(x, y), LOGS, ZEROED),
    "kl_divergence_where": value_and_grad(
        lambda o, x, y, w: o.kl_divergence(x, y, axis=0, where=w), LOGS, ZEROED, WHERE
    ),
    "kl_divergence_with_log_targets": value_and_grad(
        lambda o, x, y: o.kl_divergence_with_log_targets(x, y), LOGITS, LOGS
    ),
    "generalized_kl_divergence": value_and_grad(
        lambda o, x, y: o.generalized_kl_divergence(x, y), LOGITS, ZEROED
    ),
    "convex_kl_divergence": value_and_grad(
        lambda o, x, y: o.convex_kl_divergence(x, y), LOGITS, ZEROED
    ),
    "ctc_loss": value_and_grad(
        lambda o, x, p, y, q: o.ctc_loss(x, p, y, q), FRAMES, FRAME_PADS, LABELS, LABEL_PADS
    ),
    "ctc_loss_with_forward_probs": value_and_grad(
        lambda o, x, p, y, q: o.ctc_loss_with_forward_probs(x, p, y, q, blank_id=3)[0],
        FRAMES,
        FRAME_PADS,
        LABELS % 3,
        LABEL_PADS,
    ),
    "ctc_forward_probs": lambda L: L.optim.ctc_loss_with_forward_probs(
        *(L.array(x) for x in (FRAMES, FRAME_PADS, LABELS, LABEL_PADS))
    ),
    "smooth_labels": value_and_grad(lambda o, x: o.smooth_labels(x, 0.2), PROBS),
    "smooth_labels_where": value_and_grad(
        lambda o, x, w: o.smooth_labels(x, 0.2, where=w), PROBS, WHERE
    ),
    "fenchel_young": value_and_grad(
        lambda o, x, y: o.make_fenchel_young_loss(lambda s: (s**2).sum() + s.max())(x, y),
        LOGITS,
        PROBS,
    ),
    "dice_loss": value_and_grad(lambda o, x, y: o.dice_loss(x, y), IMAGES, MASKS),
    "dice_loss_options": value_and_grad(
        lambda o, x, y, w: o.dice_loss(
            x,
            y,
            class_weights=w,
            smooth=0.5,
            alpha=0.3,
            beta=0.7,
            reduction="sum",
            ignore_background=True,
            axis=(1,),
        ),
        IMAGES,
        MASKS,
        np.array([1.0, 2.0, 3.0]),
    ),
    "dice_loss_probabilities": lambda L: L.optim.losses.dice_loss(
        L.array(MASKS * 0.7 + 0.1), L.array(MASKS), apply_softmax=False, reduction="none"
    ),
    "multiclass_generalized_dice_loss": value_and_grad(
        lambda o, x, y: o.multiclass_generalized_dice_loss(x, y), IMAGES, MASKS
    ),
    "binary_dice_loss": value_and_grad(
        lambda o, x, y: o.binary_dice_loss(x, y), IMAGES[..., 0], MASKS[..., 0]
    ),
    "ranking_softmax_loss": value_and_grad(
        lambda o, x, y: o.ranking_softmax_loss(x, y), LOGITS, BITS
    ),
    "ranking_softmax_loss_where": value_and_grad(
        lambda o, x, y, w, v: o.ranking_softmax_loss(x, y, where=w, weights=v, reduce_fn=None),
        LOGITS,
        BITS,
        WHERE,
        PROBS,
    ),
    "ntxent": value_and_grad(
        lambda o, x, y: o.ntxent(x, y, 0.5), LOGITS, np.array([0, 1, 0, 1], np.int32)
    ),
    "triplet_margin_loss": value_and_grad(
        lambda o, x, y, z: o.triplet_margin_loss(x, y, z), LOGITS, OTHER, THIRD
    ),
    "triplet_margin_loss_options": value_and_grad(
        lambda o, x, y, z: o.triplet_margin_loss(
            x, y, z, axis=0, norm_degree=4, margin=0.5, eps=1e-3
        ),
        LOGITS,
        OTHER,
        THIRD,
    ),
}
INTEGERS = np.ones((2, 3), np.int32)
FLOATS = np.ones((2, 3))
E = {
    "squared_error_integers": lambda o, L: o.squared_error(L.array(INTEGERS)),
    "squared_error_shapes": lambda o, L: o.squared_error(L.array(FLOATS), L.array(FLOATS[0])),
    "huber_integers": lambda o, L: o.huber_loss(L.array(INTEGERS)),
    "log_cosh_integers": lambda o, L: o.log_cosh(L.array(INTEGERS)),
    "cosine_integers": lambda o, L: o.cosine_similarity(L.array(INTEGERS), L.array(INTEGERS)),
    "softmax_integers": lambda o, L: o.softmax_cross_entropy(L.array(INTEGERS), L.array(FLOATS)),
    "labels_floats": lambda o, L: o.softmax_cross_entropy_with_integer_labels(
        L.array(FLOATS), L.array(FLOATS[:, 0])
    ),
    "labels_axis": lambda o, L: o.softmax_cross_entropy_with_integer_labels(
        L.array(FLOATS), L.array(INTEGERS[:, 0]), axis=5
    ),
    "labels_axis_type": lambda o, L: o.softmax_cross_entropy_with_integer_labels(
        L.array(FLOATS), L.array(INTEGERS[:, 0]), axis=1.5
    ),
    "sigmoid_integers": lambda o, L: o.sigmoid_binary_cross_entropy(
        L.array(INTEGERS), L.array(FLOATS)
    ),
    "kl_integers": lambda o, L: o.kl_divergence(L.array(FLOATS), L.array(INTEGERS)),
    "perceptron_shapes": lambda o, L: o.perceptron_loss(L.array(FLOATS), L.array(FLOATS[0])),
    "smooth_integers": lambda o, L: o.smooth_labels(L.array(INTEGERS), 0.1),
    "ctc_rank": lambda o, L: o.ctc_loss(*[L.array(FLOATS)] * 4),
    "ctc_shapes": lambda o, L: o.ctc_loss(
        L.array(FRAMES), L.array(FRAME_PADS[:, :2]), L.array(LABELS), L.array(LABEL_PADS)
    ),
    "dice_shapes": lambda o, L: o.dice_loss(L.array(IMAGES), L.array(MASKS[:1])),
    "dice_reduction": lambda o, L: o.dice_loss(L.array(IMAGES), L.array(MASKS), reduction="max"),
    "dice_probabilities": lambda o, L: o.dice_loss(
        L.array(IMAGES), L.array(MASKS), apply_softmax=False
    ),
    "ntxent_labels": lambda o, L: o.ntxent(L.array(LOGITS), L.array(CLASSES[:2])),
    "ranking_integers": lambda o, L: o.ranking_softmax_loss(L.array(INTEGERS), L.array(INTEGERS)),
}
CASES = [Case(name, run, x64) for x64 in (False, True) for name, run in V.items()] + [
    Case(f"error_{name}", lambda L, run=run: run(L.optim.losses, L)) for name, run in E.items()
]
