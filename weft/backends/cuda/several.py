"""Several GPUs of one process: each runs the program of one device of a mesh, with NCCL between.

A thread for each GPU compiles its program and puts it on its stream, so that calls of NCCL meet as
those of processes do, and loops and branches may differ.
"""

from __future__ import annotations

import queue
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from functools import partial
from typing import Any

from weft.backends.cuda import driver, messages, nccl
from weft.backends.cuda.memory import Buffer
from weft.backends.cuda.program import Cuda
from weft.base.functional import lru
from weft.core.jaxpr import ClosedJaxpr
from weft.core.sharding import NamedSharding

Ranks = tuple[int, ...]


class Worker:
    """A thread that works with one GPU."""

    def __init__(self, number: int, member: messages.Members) -> None:
        self.number = number
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        thread = threading.Thread(
            target=_work, args=(number, member, self.tasks), name=f"weft GPU {number}", daemon=True
        )
        thread.start()
        weakref.finalize(self, self.tasks.put, None)

    def begin(self, task: Callable[[], Any]) -> Future[Any]:
        """Have a task done; its result, or its error, can be taken from what is returned."""
        answer: Future[Any] = Future()
        self.tasks.put((task, answer))
        return answer


def _work(number: int, member: messages.Members, tasks: queue.SimpleQueue[Any]) -> None:
    with messages.among(member):
        while (given := tasks.get()) is not None:
            task, answer = given
            try:
                driver.device(number).use()
                answer.set_result(task())
            except BaseException as error:
                answer.set_exception(error)
            del given, task, answer


class Team:
    """The GPUs of a mesh, in its order: a thread for each, and their communicators."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = tuple(numbers)
        if len({*numbers}) < len(numbers):
            raise ValueError(
                f"a mesh has GPUs {list(numbers)}: each may appear only once: NCCL needs one GPU "
                "per device"
            )
        self.comms: dict[Ranks, list[nccl.Communicator]] = {}
        self.lock = threading.Lock()
        self.order = threading.Lock()  # all threads get tasks in one order
        self.workers = [Worker(n, _Member(self, i)) for i, n in enumerate(self.numbers)]

    def comm(self, ranks: Ranks, own: int) -> nccl.Communicator:
        """The membership of a device in a communicator of some."""
        with self.lock:
            if ranks not in self.comms:
                self.comms[ranks] = nccl.join_all([self.numbers[r] for r in ranks])
                driver.device().use()
            return self.comms[ranks][ranks.index(own)]

    def run(self, tasks: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each GPU's thread returns for its task; where one raises, the others are stopped."""
        with self.order:
            answers = [w.begin(task) for w, task in zip(self.workers, tasks, strict=True)]
        waiting = wait(answers, return_when=FIRST_EXCEPTION).not_done
        while waiting:  # for messages of one that has failed
            self.abort()
            waiting = wait(answers, timeout=0.05).not_done
        failed = [error for answer in answers if (error := answer.exception()) is not None]
        if failed:
            self.abort()
            # those that were stopped by another's say less
            own = [error for error in failed if not isinstance(error, nccl.NcclError)]
            raise [*own, *failed][0]
        return [answer.result() for answer in answers]

    def abort(self) -> None:
        """Stop all messages; new communicators are made when they are needed again."""
        with self.lock:
            for members in self.comms.values():
                for comm in members:
                    comm.abort()
            self.comms.clear()


@lru(64)
def team_of(numbers: Ranks) -> Team:
    """The team of some GPUs, which all programs on them share."""
    return Team(numbers)


class _Member(messages.Members):
    """One device of a team."""

    def __init__(self, team: Team, own: int) -> None:
        self.team, self.own = weakref.ref(team), own

    @property
    def index(self) -> int:
        return self.own

    def comm(self, ranks: Ranks) -> nccl.Communicator | None:
        team = self.team()
        assert team is not None
        return team.comm(ranks, self.own)

    def begin(self, ranks: Ranks, site: Any) -> None:
        """Nothing to tell: all threads of a team get their tasks in one order."""


class Executable:
    """A mapped program on several GPUs of this process.

    ``programs`` are those of the devices of a mesh, in its order, as ``process_program`` makes
    them; ``ins`` and ``outs`` say how whole arguments and results are divided; ``numbers`` are the
    GPUs.
    """

    def __init__(
        self,
        programs: Sequence[ClosedJaxpr],
        ins: Sequence[NamedSharding],
        outs: Sequence[NamedSharding],
        numbers: Sequence[int],
        target: Any = None,
        donated: Sequence[bool] = (),
    ) -> None:
        self.programs, self.ins, self.outs = programs, ins, outs
        self.team = team_of(tuple(numbers))
        target = Cuda() if target is None else target
        self.parts = self.team.run([partial(target.compile, p, donated) for p in programs])
        # arguments whose memory results are in
        self.taken = frozenset(self.parts[0].taken)

    def run_on_devices(self, args: Sequence[Sequence[Buffer]]) -> list[list[Buffer]]:
        """Results of each GPU for its arguments, all of them device memory; they may not be there
        yet, but are for all that is put on that GPU's stream from now on."""
        parts = zip(self.parts, args, strict=True)
        return self.team.run([partial(part.run_on_device, given) for part, given in parts])
