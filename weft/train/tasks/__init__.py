"""Tasks: data with preprocessing, features, metrics and evaluation, as seqio has them."""

from weft.train.tasks import metrics as metrics
from weft.train.tasks import preprocessors as preprocessors
from weft.train.tasks.converters import DecoderFeatureConverter as DecoderFeatureConverter
from weft.train.tasks.converters import EncDecFeatureConverter as EncDecFeatureConverter
from weft.train.tasks.converters import EncoderFeatureConverter as EncoderFeatureConverter
from weft.train.tasks.converters import FeatureConverter as FeatureConverter
from weft.train.tasks.converters import LMFeatureConverter as LMFeatureConverter
from weft.train.tasks.converters import PassThroughFeatureConverter as PassThroughFeatureConverter
from weft.train.tasks.converters import PrefixLMFeatureConverter as PrefixLMFeatureConverter
from weft.train.tasks.evaluation import Evaluator as Evaluator
from weft.train.tasks.features import Feature as Feature
from weft.train.tasks.features import TaskError as TaskError
from weft.train.tasks.fingerprints import fingerprint as fingerprint
from weft.train.tasks.mixture import Mixture as Mixture
from weft.train.tasks.mixture import add as add
from weft.train.tasks.mixture import get as get
from weft.train.tasks.mixture import names as names
from weft.train.tasks.mixture import rate_num_examples as rate_num_examples
from weft.train.tasks.mixture import remove as remove
from weft.train.tasks.preprocessors import map_over_dataset as map_over_dataset
from weft.train.tasks.seqio_tasks import from_seqio as from_seqio
from weft.train.tasks.seqio_tasks import sample_seqio_task as sample_seqio_task
from weft.train.tasks.sources import Source as Source
from weft.train.tasks.task import CachePoint as CachePoint
from weft.train.tasks.task import Task as Task
