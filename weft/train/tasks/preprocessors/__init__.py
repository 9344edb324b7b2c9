"""Preprocessors of common use: functions that take a data set and return one.

A task passes ``output_features``, ``sequence_length`` and ``seed`` to a preprocessor that has
parameters of these names; bind others with ``functools.partial``. Random ones draw from
``numpy.random.Generator`` objects that depend on the seed, the epoch and the element's number only,
so a data set gives the same elements again, also when it is resumed.
"""

from weft.train.tasks.preprocessors.applying import map_over_dataset as map_over_dataset
from weft.train.tasks.preprocessors.basic import append_eos as append_eos
from weft.train.tasks.preprocessors.basic import append_eos_after_trim as append_eos_after_trim
from weft.train.tasks.preprocessors.basic import rekey as rekey
from weft.train.tasks.preprocessors.basic import tokenize as tokenize
from weft.train.tasks.preprocessors.basic import tokenize_and_append_eos as tokenize_and_append_eos
from weft.train.tasks.preprocessors.basic import trim as trim
from weft.train.tasks.preprocessors.objectives import corrupt_spans as corrupt_spans
from weft.train.tasks.preprocessors.objectives import prefix_lm as prefix_lm
from weft.train.tasks.preprocessors.objectives import random_spans_lengths as random_spans_lengths
from weft.train.tasks.preprocessors.objectives import (
    random_spans_noise_mask as random_spans_noise_mask,
)
from weft.train.tasks.preprocessors.objectives import reduce_concat_tokens as reduce_concat_tokens
from weft.train.tasks.preprocessors.objectives import select_random_chunk as select_random_chunk
from weft.train.tasks.preprocessors.objectives import span_corruption as span_corruption
from weft.train.tasks.preprocessors.objectives import split_tokens as split_tokens
