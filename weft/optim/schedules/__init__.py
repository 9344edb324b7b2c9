"""Hyperparameters that change from step to step: ``weft.optim.schedules``."""

from weft.optim.base import Schedule as Schedule
from weft.optim.base import StatefulSchedule as StatefulSchedule
from weft.optim.schedules.curves import constant_schedule as constant_schedule
from weft.optim.schedules.curves import cosine_decay_schedule as cosine_decay_schedule
from weft.optim.schedules.curves import cosine_onecycle_schedule as cosine_onecycle_schedule
from weft.optim.schedules.curves import exponential_decay as exponential_decay
from weft.optim.schedules.curves import join_schedules as join_schedules
from weft.optim.schedules.curves import linear_onecycle_schedule as linear_onecycle_schedule
from weft.optim.schedules.curves import linear_schedule as linear_schedule
from weft.optim.schedules.curves import piecewise_constant_schedule as piecewise_constant_schedule
from weft.optim.schedules.curves import (
    piecewise_interpolate_schedule as piecewise_interpolate_schedule,
)
from weft.optim.schedules.curves import polynomial_schedule as polynomial_schedule
from weft.optim.schedules.curves import sgdr_schedule as sgdr_schedule
from weft.optim.schedules.curves import warmup_constant_schedule as warmup_constant_schedule
from weft.optim.schedules.curves import warmup_cosine_decay_schedule as warmup_cosine_decay_schedule
from weft.optim.schedules.curves import (
    warmup_exponential_decay_schedule as warmup_exponential_decay_schedule,
)
from weft.optim.schedules.inject import InjectHyperparamsState as InjectHyperparamsState
from weft.optim.schedules.inject import (
    InjectStatefulHyperparamsState as InjectStatefulHyperparamsState,
)
from weft.optim.schedules.inject import WrappedSchedule as WrappedSchedule
from weft.optim.schedules.inject import inject_hyperparams as inject_hyperparams
from weft.optim.schedules.inject import inject_stateful_hyperparams as inject_stateful_hyperparams
