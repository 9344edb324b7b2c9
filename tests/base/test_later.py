"""Work that waits until a result has been given out."""

import threading

from weft.base import later


def test_work_is_done_in_the_end_where_no_thread_is_to_be_had(monkeypatch):
    def refused(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")

    later.settle()
    monkeypatch.setattr(later, "_begun", False)
    monkeypatch.setattr(threading.Thread, "start", refused)
    done = []
    for number in range(2):
        later.later(lambda number=number: done.append(number))
    assert not done
    later.settle()
    assert done == [0, 1]
