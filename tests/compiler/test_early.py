"""Messages are begun early, what needs them is put off, and nothing else changes its order."""

import random

from weft.compiler.early import overlapping, slots_of
from weft.kernel.program import Collective, Copy, Point


def test_what_needs_no_message_runs_meanwhile():
    produce, send, use = Copy(1, 0, 8), Collective(None, (1,), (2,)), Copy(3, 2, 8)
    other, more = Copy(5, 4, 8), Copy(6, 5, 8)
    assert overlapping([produce, other, send, use, more], {}) == [produce, send, other, more, use]


def test_control_flow_stays_where_it_is():
    send, use, barrier, other = (
        Collective(None, (0,), (1,)),
        Copy(2, 1, 8),
        Point(9, 8),
        Copy(5, 4, 8),
    )
    assert overlapping([send, use, barrier, other], {}) == [send, use, barrier, other]


def test_views_are_the_memory_that_they_point_at():
    send, through = Collective(None, (0,), (1,)), Copy(3, 7, 8)
    assert slots_of(through, {7: (1,)}) == {3, 7, 1}
    other = Copy(5, 4, 8)
    assert overlapping([send, through, other], {7: (1,)}) == [send, other, through]


def test_nodes_that_share_memory_keep_their_order():
    draw = random.Random(0)
    for _ in range(200):
        nodes = []
        for _ in range(draw.randrange(2, 14)):
            a, b = draw.sample(range(6), 2)
            kind = draw.randrange(4)
            nodes.append(
                Collective(object(), (a,), (b,)) if kind == 0 else
                Point(a, b) if kind == 1 else Copy(a, b, draw.random())
            )  # fmt: skip
        found = overlapping(nodes, {})
        assert len(found) == len(nodes) and {*map(id, found)} == {*map(id, nodes)}
        at = {id(node): i for i, node in enumerate(found)}
        for i, first in enumerate(nodes):
            for second in nodes[i + 1 :]:
                one, two = slots_of(first, {}), slots_of(second, {})
                if one is None or two is None or one & two:
                    assert at[id(first)] < at[id(second)]
