"""What a pipeline is made of: nodes, each with the nodes that it reads from.

An indexed node computes the rows of any of its slots. A slot that a filter rejected has no row. A
sequential node can only be read from front to back.
"""

from typing import Any

import numpy as np

from weft.train.data.cursors import HERE, IndexedCursor
from weft.train.data.rows import Chunk

ENDLESS = 1 << 62  # the span of a node that is repeated forever
BLOCK = 256  # elements that are computed at once


class Node:
    """A step of a pipeline.

    ``parents`` are the nodes it reads, ``indexed`` says which of the two kinds it is.
    """

    parents: tuple["Node", ...] = ()
    indexed = True
    # slots of an epoch; None: known only when they have been read
    span: int | None = None
    # whether every slot has a row
    dense = True
    # whether slots can only be read forwards
    forward = False
    # how many slots to compute at once
    block = BLOCK

    def describe(self) -> str:
        """What a saved state compares, so that it is not restored into another pipeline."""
        return type(self).__name__.lower()

    def fingerprint(self) -> Any:
        """What a saved state compares of a source's data, in JSON; None for nodes that read."""
        return None

    def rows(self, slots: np.ndarray, epoch: int, session: dict) -> Chunk:
        """The rows of some slots; ``session`` belongs to one reader."""
        raise TypeError(f"{self.describe()} can only be read from front to back")

    def cursor(self, runner: Any = HERE, epoch: int = 0) -> Any:
        """A reader from front to back."""
        return IndexedCursor(self, runner, epoch)

    def prepare(self) -> None:
        """Do what should be done once, before worker processes get a copy."""


class Follower(Node):
    """An indexed node that has the slots of its parent."""

    def __init__(self, parent: Node) -> None:
        self.parents = (parent,)
        self.span, self.dense = parent.span, parent.dense
        self.forward, self.block = parent.forward, parent.block


def all_nodes(node: Node) -> list[Node]:
    """A node and all that it reads from, in an order that two equal pipelines share."""
    found: list[Node] = []
    waiting = [node]
    while waiting:
        last = waiting.pop()
        found.append(last)
        waiting.extend(reversed(last.parents))
    return found
