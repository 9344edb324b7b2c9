"""Data for training: sources, transformations, and iterators whose position can be saved.

A ``Dataset`` is a source and the steps that follow it. Sources are ``arrays``, ``npy``, ``text``,
``jsonl``, ``csv``, ``tfrecord``, ``parquet``, ``arrow``, and ``source`` for anything else with
elements. Steps are methods: ``map``, ``filter``, ``shuffle``, ``batch``, ``repeat``, ``shard``,
``take``, ``skip``, ``pad``, ``bucket``, ``pack``; ``mix`` and ``concatenate`` join data sets.
Iterate over it, or call ``iterator(workers=..., sharding=...)``: ``state()`` of an iterator is its
position, in plain texts, and ``restore(state)`` goes on from there with the same elements.

Elements are anything; batches need arrays, numbers, lists of numbers or texts in dictionaries and
tuples.
"""

from weft.train.data.dataset import Dataset as Dataset
from weft.train.data.dataset import concatenate as concatenate
from weft.train.data.dataset import mix as mix
from weft.train.data.errors import DataError as DataError
from weft.train.data.errors import WorkerError as WorkerError
from weft.train.data.example import encode_example as encode_example
from weft.train.data.example import parse_example as parse_example
from weft.train.data.iterator import DataIterator as DataIterator
from weft.train.data.making import arrays as arrays
from weft.train.data.making import arrow as arrow
from weft.train.data.making import csv as csv
from weft.train.data.making import jsonl as jsonl
from weft.train.data.making import npy as npy
from weft.train.data.making import parquet as parquet
from weft.train.data.making import source as source
from weft.train.data.making import text as text
from weft.train.data.making import tfrecord as tfrecord
