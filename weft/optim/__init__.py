"""Optimisers, schedules and losses, with the names and states of optax: ``weft.optim``."""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
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
    from weft.optim.aliases import *
    from weft.optim.apply import *
    from weft.optim.base import *
    from weft.optim.contrib.privacy import *
    from weft.optim.factored import *
    from weft.optim.gradients import *
    from weft.optim.linear_algebra import *
    from weft.optim.linesearch import *
    from weft.optim.losses.classification import *
    from weft.optim.losses.others import *
    from weft.optim.losses.regression import *
    from weft.optim.losses.sequences import *
    from weft.optim.microbatching import microbatch as microbatch
    from weft.optim.moments import *
    from weft.optim.numerics import *
    from weft.optim.optimisers import *
    from weft.optim.quasi_newton import *
    from weft.optim.scaling import *
    from weft.optim.schedules.curves import *
    from weft.optim.schedules.inject import *
    from weft.optim.slow_weights import *
    from weft.optim.squares import *
    from weft.optim.transforms.accumulation import *
    from weft.optim.transforms.adding import *
    from weft.optim.transforms.clipping import *
    from weft.optim.transforms.combining import *
    from weft.optim.transforms.conditionality import *
    from weft.optim.transforms.constraining import *
    from weft.optim.transforms.masking import *
    from weft.optim.transforms.monitoring import *
    from weft.optim.tree_utils.states import tree_map_params as tree_map_params
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (
            "assignment contrib experimental linesearch losses microbatching monte_carlo "
            "perturbations projections schedules second_order transforms tree tree_utils"
        ).split(),
        {
            "weft.optim.aliases": (
                "AdaptiveGradClipState AddDecayedWeightsState ClipByGlobalNormState ClipState "
                "MultiTransformState ScaleByTrustRatioState ScaleState bias_correction "
                "multi_transform update_infinity_moment update_moment update_moment_per_elem_norm"
            ),
            "weft.optim.apply": "apply_updates incremental_update periodic_update",
            "weft.optim.base": (
                "EmptyState GradientTransformation GradientTransformationExtraArgs MaskOrFn "
                "OptState Params ScalarOrSchedule Schedule TransformInitFn "
                "TransformUpdateExtraArgsFn TransformUpdateFn Updates identity init_empty_state "
                "set_to_zero stateless stateless_with_tree_map with_extra_args_support"
            ),
            "weft.optim.contrib.privacy": (
                "DifferentiallyPrivateAggregateState differentially_private_aggregate dpsgd"
            ),
            "weft.optim.factored": "FactoredState scale_by_factored_rms",
            "weft.optim.gradients": "multi_normal scale_gradient",
            "weft.optim.quasi_newton": "ScaleByLBFGSState scale_by_lbfgs",
            "weft.optim.linear_algebra": "global_norm matrix_inverse_pth_root nnls power_iteration",
            "weft.optim.linesearch": (
                "ScaleByBacktrackingLinesearchState ScaleByZoomLinesearchState ZoomLinesearchInfo "
                "scale_by_backtracking_linesearch scale_by_zoom_linesearch "
                "value_and_grad_from_state"
            ),
            "weft.optim.slow_weights": "LookaheadParams LookaheadState lookahead",
            "weft.optim.losses.classification": (
                "convex_kl_divergence generalized_kl_divergence hinge_loss kl_divergence "
                "safe_softmax_cross_entropy sigmoid_binary_cross_entropy sigmoid_focal_loss "
                "softmax_cross_entropy softmax_cross_entropy_with_integer_labels"
            ),
            "weft.optim.losses.others": "ntxent smooth_labels",
            "weft.optim.losses.regression": (
                "cosine_distance cosine_similarity huber_loss l2_loss log_cosh squared_error"
            ),
            "weft.optim.losses.sequences": "ctc_loss ctc_loss_with_forward_probs",
            "weft.optim.microbatching": "microbatch",
            "weft.optim.moments": (
                "ScaleByAdamState ScaleByAdanState ScaleByAmsgradState ScaleByBeliefState "
                "ScaleByLionState ScaleByNovogradState scale_by_adam scale_by_adamax scale_by_adan "
                "scale_by_amsgrad scale_by_belief scale_by_lion scale_by_novograd scale_by_radam "
                "scale_by_yogi"
            ),
            "weft.optim.numerics": (
                "safe_increment safe_int32_increment safe_norm safe_root_mean_squares"
            ),
            "weft.optim.optimisers": (
                "adabelief adadelta adafactor adagrad adam adamax adamaxw adamw adan amsgrad "
                "fromage lamb lars lbfgs lion nadam nadamw noisy_sgd novograd optimistic_adam "
                "optimistic_adam_v2 optimistic_gradient_descent polyak_sgd radam rmsprop rprop sgd "
                "sign_sgd signum sm3 yogi"
            ),
            "weft.optim.scaling": (
                "ApplyEvery ScaleByScheduleState apply_every centralize normalize_by_update_norm "
                "scale scale_by_learning_rate scale_by_param_block_norm scale_by_param_block_rms "
                "scale_by_polyak scale_by_schedule scale_by_sign scale_by_trust_ratio"
            ),
            "weft.optim.schedules.curves": (
                "constant_schedule cosine_decay_schedule cosine_onecycle_schedule "
                "exponential_decay join_schedules linear_onecycle_schedule linear_schedule "
                "piecewise_constant_schedule piecewise_interpolate_schedule polynomial_schedule "
                "sgdr_schedule warmup_constant_schedule warmup_cosine_decay_schedule "
                "warmup_exponential_decay_schedule"
            ),
            "weft.optim.schedules.inject": (
                "InjectHyperparamsState InjectStatefulHyperparamsState WrappedSchedule "
                "inject_hyperparams inject_stateful_hyperparams"
            ),
            "weft.optim.squares": (
                "ScaleByAdaDeltaState ScaleByRStdDevState ScaleByRmsState ScaleByRpropState "
                "ScaleByRssState ScaleBySM3State scale_by_adadelta "
                "scale_by_distance_over_gradients scale_by_optimistic_gradient scale_by_rms "
                "scale_by_rprop scale_by_rss scale_by_sm3 scale_by_stddev"
            ),
            "weft.optim.transforms.accumulation": (
                "EmaState MultiSteps MultiStepsState ShouldSkipUpdateFunction TraceState ema "
                "skip_large_updates skip_not_finite trace"
            ),
            "weft.optim.transforms.adding": "AddNoiseState add_decayed_weights add_noise",
            "weft.optim.transforms.clipping": (
                "adaptive_grad_clip clip clip_by_block_rms clip_by_global_norm "
                "per_example_global_norm_clip per_example_layer_norm_clip"
            ),
            "weft.optim.transforms.combining": (
                "PartitionState chain freeze named_chain partition selective_transform"
            ),
            "weft.optim.transforms.conditionality": (
                "ApplyIfFiniteState ConditionallyMaskState ConditionallyTransformState "
                "apply_if_finite conditionally_mask conditionally_transform"
            ),
            "weft.optim.transforms.constraining": (
                "NonNegativeParamsState ZeroNansState flatten keep_params_nonnegative zero_nans"
            ),
            "weft.optim.transforms.masking": "MaskedNode MaskedState masked",
            "weft.optim.transforms.monitoring": (
                "MonitorState SnapshotState measure_with_ema monitor snapshot"
            ),
            "weft.optim.tree_utils.states": "tree_map_params",
        },
        public=False,
    )
