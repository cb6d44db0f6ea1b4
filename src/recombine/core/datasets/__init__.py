"""Data sets: labelled pictures in files or in memory, one file per layout."""

from recombine.core.datasets.dataset import Dataset, open_dataset
from recombine.core.datasets.source import DATASETS, Source
from recombine.core.registry import import_members

import_members(__name__)

__all__ = ["DATASETS", "Dataset", "Source", "open_dataset"]
