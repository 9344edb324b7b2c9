"""Optimisers that are newer or less used: ``weft.optim.contrib``."""

from weft.optim.contrib.matrices import GaLoreDimensionNumbers as GaLoreDimensionNumbers
from weft.optim.contrib.matrices import GaLoreState as GaLoreState
from weft.optim.contrib.matrices import MuonDimensionNumbers as MuonDimensionNumbers
from weft.optim.contrib.matrices import MuonState as MuonState
from weft.optim.contrib.matrices import galore as galore
from weft.optim.contrib.matrices import muon as muon
from weft.optim.contrib.matrices import scale_by_galore as scale_by_galore
from weft.optim.contrib.matrices import scale_by_muon as scale_by_muon
from weft.optim.contrib.moments import COCOBState as COCOBState
from weft.optim.contrib.moments import MadgradState as MadgradState
from weft.optim.contrib.moments import ScaleByAdemamixState as ScaleByAdemamixState
from weft.optim.contrib.moments import (
    ScaleBySimplifiedAdEMAMixState as ScaleBySimplifiedAdEMAMixState,
)
from weft.optim.contrib.moments import acprop as acprop
from weft.optim.contrib.moments import ademamix as ademamix
from weft.optim.contrib.moments import adopt as adopt
from weft.optim.contrib.moments import cocob as cocob
from weft.optim.contrib.moments import madgrad as madgrad
from weft.optim.contrib.moments import scale_by_acprop as scale_by_acprop
from weft.optim.contrib.moments import scale_by_ademamix as scale_by_ademamix
from weft.optim.contrib.moments import scale_by_adopt as scale_by_adopt
from weft.optim.contrib.moments import scale_by_cocob as scale_by_cocob
from weft.optim.contrib.moments import scale_by_madgrad as scale_by_madgrad
from weft.optim.contrib.moments import scale_by_simplified_ademamix as scale_by_simplified_ademamix
from weft.optim.contrib.moments import simplified_ademamix as simplified_ademamix
from weft.optim.contrib.parameter_free import DAdaptAdamWState as DAdaptAdamWState
from weft.optim.contrib.parameter_free import DoGState as DoGState
from weft.optim.contrib.parameter_free import DoWGState as DoWGState
from weft.optim.contrib.parameter_free import MechanicState as MechanicState
from weft.optim.contrib.parameter_free import MomoAdamState as MomoAdamState
from weft.optim.contrib.parameter_free import MomoState as MomoState
from weft.optim.contrib.parameter_free import ProdigyState as ProdigyState
from weft.optim.contrib.parameter_free import dadapt_adamw as dadapt_adamw
from weft.optim.contrib.parameter_free import dog as dog
from weft.optim.contrib.parameter_free import dowg as dowg
from weft.optim.contrib.parameter_free import mechanize as mechanize
from weft.optim.contrib.parameter_free import momo as momo
from weft.optim.contrib.parameter_free import momo_adam as momo_adam
from weft.optim.contrib.parameter_free import prodigy as prodigy
from weft.optim.contrib.privacy import (
    DifferentiallyPrivateAggregateState as DifferentiallyPrivateAggregateState,
)
from weft.optim.contrib.privacy import (
    differentially_private_aggregate as differentially_private_aggregate,
)
from weft.optim.contrib.privacy import dpsgd as dpsgd
from weft.optim.contrib.sophia import HutchinsonState as HutchinsonState
from weft.optim.contrib.sophia import SophiaState as SophiaState
from weft.optim.contrib.sophia import (
    hutchinson_estimator_diag_hessian as hutchinson_estimator_diag_hessian,
)
from weft.optim.contrib.sophia import sophia as sophia
from weft.optim.contrib.wrappers import NormalizeState as NormalizeState
from weft.optim.contrib.wrappers import ReduceLROnPlateauState as ReduceLROnPlateauState
from weft.optim.contrib.wrappers import SAMState as SAMState
from weft.optim.contrib.wrappers import ScheduleFreeState as ScheduleFreeState
from weft.optim.contrib.wrappers import SplitRealAndImaginaryState as SplitRealAndImaginaryState
from weft.optim.contrib.wrappers import normalize as normalize
from weft.optim.contrib.wrappers import reduce_on_plateau as reduce_on_plateau
from weft.optim.contrib.wrappers import sam as sam
from weft.optim.contrib.wrappers import schedule_free as schedule_free
from weft.optim.contrib.wrappers import schedule_free_adamw as schedule_free_adamw
from weft.optim.contrib.wrappers import schedule_free_eval_params as schedule_free_eval_params
from weft.optim.contrib.wrappers import schedule_free_sgd as schedule_free_sgd
from weft.optim.contrib.wrappers import split_real_and_imaginary as split_real_and_imaginary
