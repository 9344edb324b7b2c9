"""Data for training: sources, transformations, and iterators whose position can be saved.

A ``Dataset`` is a source and the steps that follow it. Sources are ``arrays``, ``npy``, ``text``,
``jsonl``, ``csv``, and ``source`` for anything else with elements. Steps are methods: ``map``,
``filter``, ``shuffle``, ``batch``, ``repeat``, ``shard``, ``take``, ``skip``; ``mix`` and
``concatenate`` join data sets. Iterate over it: ``iterator.state()`` is the position, in plain
texts, and ``iterator.restore(state)`` goes on from there with the same elements.

Elements are anything; batches need arrays, numbers, lists of numbers or texts in dictionaries and
tuples.
"""

from weft.train.data.dataset import Dataset as Dataset
from weft.train.data.dataset import concatenate as concatenate
from weft.train.data.dataset import mix as mix
from weft.train.data.errors import DataError as DataError
from weft.train.data.errors import WorkerError as WorkerError
from weft.train.data.iterator import DataIterator as DataIterator
from weft.train.data.making import arrays as arrays
from weft.train.data.making import csv as csv
from weft.train.data.making import jsonl as jsonl
from weft.train.data.making import npy as npy
from weft.train.data.making import source as source
from weft.train.data.making import text as text
