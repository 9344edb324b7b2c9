"""Metrics that accumulate over steps and devices inside ``jit``, with CLU's interface."""

from weft.train.metrics.averages import Accuracy as Accuracy
from weft.train.metrics.averages import Average as Average
from weft.train.metrics.averages import LastValue as LastValue
from weft.train.metrics.averages import Perplexity as Perplexity
from weft.train.metrics.averages import Std as Std
from weft.train.metrics.base import CollectingMetric as CollectingMetric
from weft.train.metrics.base import Collection as Collection
from weft.train.metrics.base import Metric as Metric
from weft.train.metrics.base import over_steps as over_steps
from weft.train.metrics.bleu import Bleu as Bleu
from weft.train.metrics.bleu import corpus_bleu as corpus_bleu
from weft.train.metrics.classification import AUC as AUC
from weft.train.metrics.classification import F1 as F1
from weft.train.metrics.classification import ClassCounts as ClassCounts
from weft.train.metrics.classification import Precision as Precision
from weft.train.metrics.classification import Recall as Recall
from weft.train.metrics.classification import roc_auc as roc_auc
from weft.train.metrics.summaries import Histogram as Histogram
from weft.train.metrics.summaries import Images as Images
