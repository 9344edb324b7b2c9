"""Losses, one value for each example: ``weft.optim.losses``."""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.optim.losses.classification import *
    from weft.optim.losses.others import *
    from weft.optim.losses.regression import *
    from weft.optim.losses.sequences import *
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (),
        {
            "weft.optim.losses.classification": (
                "convex_kl_divergence generalized_kl_divergence hinge_loss kl_divergence "
                "kl_divergence_with_log_targets multiclass_hinge_loss multiclass_perceptron_loss "
                "multiclass_sparsemax_loss perceptron_loss poly_loss_cross_entropy "
                "safe_softmax_cross_entropy sigmoid_binary_cross_entropy sigmoid_focal_loss "
                "softmax_cross_entropy softmax_cross_entropy_with_integer_labels sparsemax_loss"
            ),
            "weft.optim.losses.others": (
                "binary_dice_loss dice_loss make_fenchel_young_loss "
                "multiclass_generalized_dice_loss ntxent ranking_softmax_loss smooth_labels "
                "triplet_margin_loss"
            ),
            "weft.optim.losses.regression": (
                "cosine_distance cosine_similarity huber_loss l2_loss log_cosh squared_error"
            ),
            "weft.optim.losses.sequences": "ctc_loss ctc_loss_with_forward_probs",
        },
        public=False,
    )
