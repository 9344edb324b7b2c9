"""The handwritten digits that come inside scikit-learn: 1,797 images of 8 by 8 grey values.

Only the data file of the installed package is read; the package itself is not imported, so
nothing that it depends on is needed.
"""

import gzip
import importlib.util
from pathlib import Path

import numpy as np

FILE = Path("datasets", "data", "digits.csv.gz")


def digits(seed=0, held_out=360):
    """Training and test images in [0, 1], as rows of 64 pixels, with their labels."""
    package = importlib.util.find_spec("sklearn")
    if package is None:
        raise SystemExit("the digits come with scikit-learn: pip install --no-deps scikit-learn")
    with gzip.open(Path(package.submodule_search_locations[0]) / FILE, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    table = table[np.random.default_rng(seed).permutation(len(table))]
    images, labels = table[:, :-1] / 16, table[:, -1].astype(np.int32)
    train, test = slice(held_out, None), slice(None, held_out)
    return (images[train], labels[train]), (images[test], labels[test])
