"""Optimisers, schedules and losses, with the names and states of optax: ``weft.optim``."""

from weft.optim import assignment as assignment
from weft.optim import contrib as contrib
from weft.optim import experimental as experimental
from weft.optim import linesearch as linesearch
from weft.optim import losses as losses
from weft.optim import microbatching as microbatching
from weft.optim import monte_carlo as monte_carlo
from weft.optim import perturbations as perturbations
from weft.optim import projections as projections
from weft.optim import schedules as schedules
from weft.optim import second_order as second_order
from weft.optim import transforms as transforms
from weft.optim import tree as tree
from weft.optim import tree_utils as tree_utils
from weft.optim.apply import apply_updates as apply_updates
from weft.optim.apply import incremental_update as incremental_update
from weft.optim.apply import periodic_update as periodic_update
from weft.optim.base import EmptyState as EmptyState
from weft.optim.base import GradientTransformation as GradientTransformation
from weft.optim.base import GradientTransformationExtraArgs as GradientTransformationExtraArgs
from weft.optim.base import MaskOrFn as MaskOrFn
from weft.optim.base import OptState as OptState
from weft.optim.base import Params as Params
from weft.optim.base import ScalarOrSchedule as ScalarOrSchedule
from weft.optim.base import Schedule as Schedule
from weft.optim.base import TransformInitFn as TransformInitFn
from weft.optim.base import TransformUpdateExtraArgsFn as TransformUpdateExtraArgsFn
from weft.optim.base import TransformUpdateFn as TransformUpdateFn
from weft.optim.base import Updates as Updates
from weft.optim.base import identity as identity
from weft.optim.base import init_empty_state as init_empty_state
from weft.optim.base import set_to_zero as set_to_zero
from weft.optim.base import stateless as stateless
from weft.optim.base import stateless_with_tree_map as stateless_with_tree_map
from weft.optim.base import with_extra_args_support as with_extra_args_support
from weft.optim.contrib import (
    DifferentiallyPrivateAggregateState as DifferentiallyPrivateAggregateState,
)
from weft.optim.contrib import differentially_private_aggregate as differentially_private_aggregate
from weft.optim.contrib import dpsgd as dpsgd
from weft.optim.factored import FactoredState as FactoredState
from weft.optim.factored import scale_by_factored_rms as scale_by_factored_rms
from weft.optim.gradients import multi_normal as multi_normal
from weft.optim.gradients import scale_gradient as scale_gradient
from weft.optim.lbfgs import ScaleByLBFGSState as ScaleByLBFGSState
from weft.optim.lbfgs import scale_by_lbfgs as scale_by_lbfgs
from weft.optim.linear_algebra import global_norm as global_norm
from weft.optim.linear_algebra import matrix_inverse_pth_root as matrix_inverse_pth_root
from weft.optim.linear_algebra import nnls as nnls
from weft.optim.linear_algebra import power_iteration as power_iteration
from weft.optim.linesearch import (
    ScaleByBacktrackingLinesearchState as ScaleByBacktrackingLinesearchState,
)
from weft.optim.linesearch import ScaleByZoomLinesearchState as ScaleByZoomLinesearchState
from weft.optim.linesearch import ZoomLinesearchInfo as ZoomLinesearchInfo
from weft.optim.linesearch import (
    scale_by_backtracking_linesearch as scale_by_backtracking_linesearch,
)
from weft.optim.linesearch import scale_by_zoom_linesearch as scale_by_zoom_linesearch
from weft.optim.linesearch import value_and_grad_from_state as value_and_grad_from_state
from weft.optim.lookahead import LookaheadParams as LookaheadParams
from weft.optim.lookahead import LookaheadState as LookaheadState
from weft.optim.lookahead import lookahead as lookahead
from weft.optim.losses import convex_kl_divergence as convex_kl_divergence
from weft.optim.losses import cosine_distance as cosine_distance
from weft.optim.losses import cosine_similarity as cosine_similarity
from weft.optim.losses import ctc_loss as ctc_loss
from weft.optim.losses import ctc_loss_with_forward_probs as ctc_loss_with_forward_probs
from weft.optim.losses import generalized_kl_divergence as generalized_kl_divergence
from weft.optim.losses import hinge_loss as hinge_loss
from weft.optim.losses import huber_loss as huber_loss
from weft.optim.losses import kl_divergence as kl_divergence
from weft.optim.losses import l2_loss as l2_loss
from weft.optim.losses import log_cosh as log_cosh
from weft.optim.losses import ntxent as ntxent
from weft.optim.losses import safe_softmax_cross_entropy as safe_softmax_cross_entropy
from weft.optim.losses import sigmoid_binary_cross_entropy as sigmoid_binary_cross_entropy
from weft.optim.losses import sigmoid_focal_loss as sigmoid_focal_loss
from weft.optim.losses import smooth_labels as smooth_labels
from weft.optim.losses import softmax_cross_entropy as softmax_cross_entropy
from weft.optim.losses import (
    softmax_cross_entropy_with_integer_labels as softmax_cross_entropy_with_integer_labels,
)
from weft.optim.losses import squared_error as squared_error
from weft.optim.microbatching import microbatch as microbatch
from weft.optim.moments import ScaleByAdamState as ScaleByAdamState
from weft.optim.moments import ScaleByAdanState as ScaleByAdanState
from weft.optim.moments import ScaleByAmsgradState as ScaleByAmsgradState
from weft.optim.moments import ScaleByBeliefState as ScaleByBeliefState
from weft.optim.moments import ScaleByLionState as ScaleByLionState
from weft.optim.moments import ScaleByNovogradState as ScaleByNovogradState
from weft.optim.moments import scale_by_adam as scale_by_adam
from weft.optim.moments import scale_by_adamax as scale_by_adamax
from weft.optim.moments import scale_by_adan as scale_by_adan
from weft.optim.moments import scale_by_amsgrad as scale_by_amsgrad
from weft.optim.moments import scale_by_belief as scale_by_belief
from weft.optim.moments import scale_by_lion as scale_by_lion
from weft.optim.moments import scale_by_novograd as scale_by_novograd
from weft.optim.moments import scale_by_radam as scale_by_radam
from weft.optim.moments import scale_by_yogi as scale_by_yogi
from weft.optim.numerics import safe_increment as safe_increment
from weft.optim.numerics import safe_int32_increment as safe_int32_increment
from weft.optim.numerics import safe_norm as safe_norm
from weft.optim.numerics import safe_root_mean_squares as safe_root_mean_squares
from weft.optim.optimisers import adabelief as adabelief
from weft.optim.optimisers import adadelta as adadelta
from weft.optim.optimisers import adafactor as adafactor
from weft.optim.optimisers import adagrad as adagrad
from weft.optim.optimisers import adam as adam
from weft.optim.optimisers import adamax as adamax
from weft.optim.optimisers import adamaxw as adamaxw
from weft.optim.optimisers import adamw as adamw
from weft.optim.optimisers import adan as adan
from weft.optim.optimisers import amsgrad as amsgrad
from weft.optim.optimisers import fromage as fromage
from weft.optim.optimisers import lamb as lamb
from weft.optim.optimisers import lars as lars
from weft.optim.optimisers import lbfgs as lbfgs
from weft.optim.optimisers import lion as lion
from weft.optim.optimisers import nadam as nadam
from weft.optim.optimisers import nadamw as nadamw
from weft.optim.optimisers import noisy_sgd as noisy_sgd
from weft.optim.optimisers import novograd as novograd
from weft.optim.optimisers import optimistic_adam as optimistic_adam
from weft.optim.optimisers import optimistic_adam_v2 as optimistic_adam_v2
from weft.optim.optimisers import optimistic_gradient_descent as optimistic_gradient_descent
from weft.optim.optimisers import polyak_sgd as polyak_sgd
from weft.optim.optimisers import radam as radam
from weft.optim.optimisers import rmsprop as rmsprop
from weft.optim.optimisers import rprop as rprop
from weft.optim.optimisers import sgd as sgd
from weft.optim.optimisers import sign_sgd as sign_sgd
from weft.optim.optimisers import signum as signum
from weft.optim.optimisers import sm3 as sm3
from weft.optim.optimisers import yogi as yogi
from weft.optim.scaling import ApplyEvery as ApplyEvery
from weft.optim.scaling import ScaleByScheduleState as ScaleByScheduleState
from weft.optim.scaling import apply_every as apply_every
from weft.optim.scaling import centralize as centralize
from weft.optim.scaling import normalize_by_update_norm as normalize_by_update_norm
from weft.optim.scaling import scale as scale
from weft.optim.scaling import scale_by_learning_rate as scale_by_learning_rate
from weft.optim.scaling import scale_by_param_block_norm as scale_by_param_block_norm
from weft.optim.scaling import scale_by_param_block_rms as scale_by_param_block_rms
from weft.optim.scaling import scale_by_polyak as scale_by_polyak
from weft.optim.scaling import scale_by_schedule as scale_by_schedule
from weft.optim.scaling import scale_by_sign as scale_by_sign
from weft.optim.scaling import scale_by_trust_ratio as scale_by_trust_ratio
from weft.optim.schedules import InjectHyperparamsState as InjectHyperparamsState
from weft.optim.schedules import InjectStatefulHyperparamsState as InjectStatefulHyperparamsState
from weft.optim.schedules import WrappedSchedule as WrappedSchedule
from weft.optim.schedules import constant_schedule as constant_schedule
from weft.optim.schedules import cosine_decay_schedule as cosine_decay_schedule
from weft.optim.schedules import cosine_onecycle_schedule as cosine_onecycle_schedule
from weft.optim.schedules import exponential_decay as exponential_decay
from weft.optim.schedules import inject_hyperparams as inject_hyperparams
from weft.optim.schedules import inject_stateful_hyperparams as inject_stateful_hyperparams
from weft.optim.schedules import join_schedules as join_schedules
from weft.optim.schedules import linear_onecycle_schedule as linear_onecycle_schedule
from weft.optim.schedules import linear_schedule as linear_schedule
from weft.optim.schedules import piecewise_constant_schedule as piecewise_constant_schedule
from weft.optim.schedules import piecewise_interpolate_schedule as piecewise_interpolate_schedule
from weft.optim.schedules import polynomial_schedule as polynomial_schedule
from weft.optim.schedules import sgdr_schedule as sgdr_schedule
from weft.optim.schedules import warmup_constant_schedule as warmup_constant_schedule
from weft.optim.schedules import warmup_cosine_decay_schedule as warmup_cosine_decay_schedule
from weft.optim.schedules import (
    warmup_exponential_decay_schedule as warmup_exponential_decay_schedule,
)
from weft.optim.squares import ScaleByAdaDeltaState as ScaleByAdaDeltaState
from weft.optim.squares import ScaleByRmsState as ScaleByRmsState
from weft.optim.squares import ScaleByRpropState as ScaleByRpropState
from weft.optim.squares import ScaleByRssState as ScaleByRssState
from weft.optim.squares import ScaleByRStdDevState as ScaleByRStdDevState
from weft.optim.squares import ScaleBySM3State as ScaleBySM3State
from weft.optim.squares import scale_by_adadelta as scale_by_adadelta
from weft.optim.squares import scale_by_distance_over_gradients as scale_by_distance_over_gradients
from weft.optim.squares import scale_by_optimistic_gradient as scale_by_optimistic_gradient
from weft.optim.squares import scale_by_rms as scale_by_rms
from weft.optim.squares import scale_by_rprop as scale_by_rprop
from weft.optim.squares import scale_by_rss as scale_by_rss
from weft.optim.squares import scale_by_sm3 as scale_by_sm3
from weft.optim.squares import scale_by_stddev as scale_by_stddev
from weft.optim.transforms import AddNoiseState as AddNoiseState
from weft.optim.transforms import ApplyIfFiniteState as ApplyIfFiniteState
from weft.optim.transforms import ConditionallyMaskState as ConditionallyMaskState
from weft.optim.transforms import ConditionallyTransformState as ConditionallyTransformState
from weft.optim.transforms import EmaState as EmaState
from weft.optim.transforms import MaskedNode as MaskedNode
from weft.optim.transforms import MaskedState as MaskedState
from weft.optim.transforms import MonitorState as MonitorState
from weft.optim.transforms import MultiSteps as MultiSteps
from weft.optim.transforms import MultiStepsState as MultiStepsState
from weft.optim.transforms import NonNegativeParamsState as NonNegativeParamsState
from weft.optim.transforms import PartitionState as PartitionState
from weft.optim.transforms import ShouldSkipUpdateFunction as ShouldSkipUpdateFunction
from weft.optim.transforms import SnapshotState as SnapshotState
from weft.optim.transforms import TraceState as TraceState
from weft.optim.transforms import ZeroNansState as ZeroNansState
from weft.optim.transforms import adaptive_grad_clip as adaptive_grad_clip
from weft.optim.transforms import add_decayed_weights as add_decayed_weights
from weft.optim.transforms import add_noise as add_noise
from weft.optim.transforms import apply_if_finite as apply_if_finite
from weft.optim.transforms import chain as chain
from weft.optim.transforms import clip as clip
from weft.optim.transforms import clip_by_block_rms as clip_by_block_rms
from weft.optim.transforms import clip_by_global_norm as clip_by_global_norm
from weft.optim.transforms import conditionally_mask as conditionally_mask
from weft.optim.transforms import conditionally_transform as conditionally_transform
from weft.optim.transforms import ema as ema
from weft.optim.transforms import flatten as flatten
from weft.optim.transforms import freeze as freeze
from weft.optim.transforms import keep_params_nonnegative as keep_params_nonnegative
from weft.optim.transforms import masked as masked
from weft.optim.transforms import measure_with_ema as measure_with_ema
from weft.optim.transforms import monitor as monitor
from weft.optim.transforms import named_chain as named_chain
from weft.optim.transforms import partition as partition
from weft.optim.transforms import per_example_global_norm_clip as per_example_global_norm_clip
from weft.optim.transforms import per_example_layer_norm_clip as per_example_layer_norm_clip
from weft.optim.transforms import selective_transform as selective_transform
from weft.optim.transforms import skip_large_updates as skip_large_updates
from weft.optim.transforms import skip_not_finite as skip_not_finite
from weft.optim.transforms import snapshot as snapshot
from weft.optim.transforms import trace as trace
from weft.optim.transforms import zero_nans as zero_nans
from weft.optim.tree_utils import tree_map_params as tree_map_params

# Other names of the same things.
MultiTransformState = PartitionState
multi_transform = partition
bias_correction = tree_utils.tree_bias_correction
update_infinity_moment = tree_utils.tree_update_infinity_moment
update_moment = tree_utils.tree_update_moment
update_moment_per_elem_norm = tree_utils.tree_update_moment_per_elem_norm
AdaptiveGradClipState = EmptyState
AddDecayedWeightsState = EmptyState
ClipByGlobalNormState = EmptyState
ClipState = EmptyState
ScaleByTrustRatioState = EmptyState
ScaleState = EmptyState
