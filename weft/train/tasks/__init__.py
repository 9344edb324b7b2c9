"""Tasks: data with preprocessing, features, metrics and evaluation, as seqio has them."""

from weft.train.tasks.converters import EncDecFeatureConverter as EncDecFeatureConverter
from weft.train.tasks.converters import EncoderFeatureConverter as EncoderFeatureConverter
from weft.train.tasks.converters import FeatureConverter as FeatureConverter
from weft.train.tasks.converters import LMFeatureConverter as LMFeatureConverter
from weft.train.tasks.converters import PassThroughFeatureConverter as PassThroughFeatureConverter
from weft.train.tasks.converters import PrefixLMFeatureConverter as PrefixLMFeatureConverter
from weft.train.tasks.features import Feature as Feature
from weft.train.tasks.features import TaskError as TaskError
