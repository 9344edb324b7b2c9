"""Transformations of gradients that combine with any optimiser: ``weft.optim.transforms``."""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.optim.transforms.accumulation import *
    from weft.optim.transforms.adding import *
    from weft.optim.transforms.clipping import *
    from weft.optim.transforms.combining import *
    from weft.optim.transforms.conditionality import *
    from weft.optim.transforms.constraining import *
    from weft.optim.transforms.masking import *
    from weft.optim.transforms.monitoring import *
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (),
        {
            "weft.optim.transforms.accumulation": (
                "EmaState MultiSteps MultiStepsState ShouldSkipUpdateFunction TraceState ema "
                "skip_large_updates skip_not_finite trace"
            ),
            "weft.optim.transforms.adding": "AddNoiseState add_decayed_weights add_noise",
            "weft.optim.transforms.clipping": (
                "adaptive_grad_clip clip clip_by_block_rms clip_by_global_norm "
                "per_example_global_norm_clip per_example_layer_norm_clip unitwise_clip "
                "unitwise_norm"
            ),
            "weft.optim.transforms.combining": (
                "PartitionState chain freeze named_chain partition selective_transform"
            ),
            "weft.optim.transforms.conditionality": (
                "ApplyIfFiniteState ConditionFn ConditionallyMaskState ConditionallyTransformState "
                "apply_if_finite conditionally_mask conditionally_transform"
            ),
            "weft.optim.transforms.constraining": (
                "NonNegativeParamsState ZeroNansState flatten keep_params_nonnegative zero_nans"
            ),
            "weft.optim.transforms.masking": "MaskedNode MaskedState masked",
            "weft.optim.transforms.monitoring": (
                "MonitorState SnapshotState measure_with_ema monitor snapshot"
            ),
        },
        public=False,
    )
