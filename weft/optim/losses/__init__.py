"""Losses, one value for each example: ``weft.optim.losses``."""

from weft.optim.losses.classification import convex_kl_divergence as convex_kl_divergence
from weft.optim.losses.classification import generalized_kl_divergence as generalized_kl_divergence
from weft.optim.losses.classification import hinge_loss as hinge_loss
from weft.optim.losses.classification import kl_divergence as kl_divergence
from weft.optim.losses.classification import (
    kl_divergence_with_log_targets as kl_divergence_with_log_targets,
)
from weft.optim.losses.classification import multiclass_hinge_loss as multiclass_hinge_loss
from weft.optim.losses.classification import (
    multiclass_perceptron_loss as multiclass_perceptron_loss,
)
from weft.optim.losses.classification import multiclass_sparsemax_loss as multiclass_sparsemax_loss
from weft.optim.losses.classification import perceptron_loss as perceptron_loss
from weft.optim.losses.classification import poly_loss_cross_entropy as poly_loss_cross_entropy
from weft.optim.losses.classification import (
    safe_softmax_cross_entropy as safe_softmax_cross_entropy,
)
from weft.optim.losses.classification import (
    sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy,
)
from weft.optim.losses.classification import sigmoid_focal_loss as sigmoid_focal_loss
from weft.optim.losses.classification import softmax_cross_entropy as softmax_cross_entropy
from weft.optim.losses.classification import (
    softmax_cross_entropy_with_integer_labels as softmax_cross_entropy_with_integer_labels,
)
from weft.optim.losses.classification import sparsemax_loss as sparsemax_loss
from weft.optim.losses.others import binary_dice_loss as binary_dice_loss
from weft.optim.losses.others import dice_loss as dice_loss
from weft.optim.losses.others import make_fenchel_young_loss as make_fenchel_young_loss
from weft.optim.losses.others import (
    multiclass_generalized_dice_loss as multiclass_generalized_dice_loss,
)
from weft.optim.losses.others import ntxent as ntxent
from weft.optim.losses.others import ranking_softmax_loss as ranking_softmax_loss
from weft.optim.losses.others import smooth_labels as smooth_labels
from weft.optim.losses.others import triplet_margin_loss as triplet_margin_loss
from weft.optim.losses.regression import cosine_distance as cosine_distance
from weft.optim.losses.regression import cosine_similarity as cosine_similarity
from weft.optim.losses.regression import huber_loss as huber_loss
from weft.optim.losses.regression import l2_loss as l2_loss
from weft.optim.losses.regression import log_cosh as log_cosh
from weft.optim.losses.regression import squared_error as squared_error
from weft.optim.losses.sequences import ctc_loss as ctc_loss
from weft.optim.losses.sequences import ctc_loss_with_forward_probs as ctc_loss_with_forward_probs
