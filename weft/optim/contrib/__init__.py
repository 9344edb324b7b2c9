"""Optimisers that are newer or less used: ``weft.optim.contrib``."""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.optim.contrib.curvature import *
    from weft.optim.contrib.matrices import *
    from weft.optim.contrib.moments import *
    from weft.optim.contrib.parameter_free import *
    from weft.optim.contrib.privacy import *
    from weft.optim.contrib.wrappers import *
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        (),
        {
            "weft.optim.contrib.matrices": (
                "GaLoreDimensionNumbers GaLoreState MuonDimensionNumbers MuonState galore muon "
                "scale_by_galore scale_by_muon"
            ),
            "weft.optim.contrib.moments": (
                "COCOBState MadgradState ScaleByAdemamixState ScaleBySimplifiedAdEMAMixState "
                "acprop ademamix adopt cocob madgrad scale_by_acprop scale_by_ademamix "
                "scale_by_adopt scale_by_cocob scale_by_madgrad scale_by_simplified_ademamix "
                "simplified_ademamix"
            ),
            "weft.optim.contrib.parameter_free": (
                "DAdaptAdamWState DoGState DoWGState MechanicState MomoAdamState MomoState "
                "ProdigyState dadapt_adamw dog dowg mechanize momo momo_adam prodigy"
            ),
            "weft.optim.contrib.privacy": (
                "DifferentiallyPrivateAggregateState differentially_private_aggregate dpsgd"
            ),
            "weft.optim.contrib.curvature": (
                "HutchinsonState SophiaState hutchinson_estimator_diag_hessian sophia"
            ),
            "weft.optim.contrib.wrappers": (
                "NormalizeState ReduceLROnPlateauState SAMState ScheduleFreeState "
                "SplitRealAndImaginaryState normalize reduce_on_plateau sam schedule_free "
                "schedule_free_adamw schedule_free_eval_params schedule_free_sgd "
                "split_real_and_imaginary"
            ),
        },
        public=False,
    )
