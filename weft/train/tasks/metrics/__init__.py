"""Metrics of tasks: functions of all targets and predictions, with values from 0 to 1 by name."""

from weft.train.tasks.metrics.texts import accuracy as accuracy
from weft.train.tasks.metrics.texts import bleu as bleu
from weft.train.tasks.metrics.texts import exact_match as exact_match
from weft.train.tasks.metrics.texts import mean_score as mean_score
from weft.train.tasks.metrics.texts import rouge as rouge
from weft.train.tasks.metrics.texts import squad as squad
