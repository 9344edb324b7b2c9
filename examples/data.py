"""Data that comes inside packages: digits of scikit-learn, pictures of scikit-image.

Only the data files of the installed packages are read; the packages are not imported, so nothing
that they depend on is needed.
"""

import gzip
import importlib.util
import struct
import zlib
from pathlib import Path

import numpy as np

DIGITS = Path("datasets", "data", "digits.csv.gz")


def _folder(module, package):
    found = importlib.util.find_spec(module)
    if found is None:
        raise SystemExit(f"the data comes with {package}: pip install --no-deps {package}")
    return Path(found.submodule_search_locations[0])


def digits(seed=0, held_out=360):
    """1,797 handwritten digits: training and test images in [0, 1], as rows of 8 × 8 = 64 pixels,
    with their labels. They are shuffled; with a seed of None they keep the order of the file."""
    with gzip.open(_folder("sklearn", "scikit-learn") / DIGITS, "rt") as file:
        table = np.loadtxt(file, delimiter=",", dtype=np.float32)
    if seed is None:
        table = table[::-1]
    else:
        table = table[np.random.default_rng(seed).permutation(len(table))]
    images, labels = table[:, :-1] / 16, table[:, -1].astype(np.int32)
    train, test = slice(held_out, None), slice(None, held_out)
    return (images[train], labels[train]), (images[test], labels[test])


def picture(name, rows=None):
    """The first rows of a picture of scikit-image, as bytes of shape (height, width, channels)."""
    data = (_folder("skimage", "scikit-image") / "data" / f"{name}.png").read_bytes()
    chunks, at = {}, 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + length]
        at += length + 12
    width, height, bits, colour = struct.unpack(">IIBB", chunks[b"IHDR"][:10])
    channels = {0: 1, 2: 3, 4: 2, 6: 4}.get(colour)
    if bits != 8 or channels is None or chunks[b"IHDR"][12]:
        raise ValueError(f"{name}.png: only plain PNG files of 8 bits a channel are read")
    raw = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)[:rows]
    lines, above = [], [0] * (width * channels)
    for kind, *line in raw.tolist():
        above = _unfiltered(kind, line, above, channels)
        lines.append(above)
    return np.array(lines, np.uint8).reshape(len(raw), width, channels)


def _unfiltered(kind, line, above, channels):
    """A row of a PNG file without its filter. Reference: the PNG specification, section 9."""
    if kind == 0:
        return line
    if kind == 2:
        return [(x + b) & 255 for x, b in zip(line, above)]
    done, corners = [0] * channels, [0] * channels + above
    for i, x in enumerate(line):
        a = done[i]
        if kind == 1:
            done.append((x + a) & 255)
            continue
        b = above[i]
        if kind == 3:
            done.append((x + (a + b) // 2) & 255)
            continue
        c = corners[i]
        from_a, from_b, from_c = abs(b - c), abs(a - c), abs(a + b - c - c)
        if from_a <= from_b and from_a <= from_c:
            done.append((x + a) & 255)
        else:
            done.append((x + (b if from_b <= from_c else c)) & 255)
    return done[channels:]
