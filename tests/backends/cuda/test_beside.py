"""What libraries take long to make is made beside the rest of a compilation."""

import threading

import pytest

import weft
from tests.backends.cuda import planned
from tests.backends.cuda.test_rows import f32
from weft import numpy as jnp
from weft.backends.cuda import commands, driver, libraries
from weft.backends.cuda.routines import fourier


class Slow:
    """A library whose functions wait until they may go on, and note the threads they ran in."""

    def __init__(self, *fails):
        self.go_on, self.threads, self.fails = threading.Event(), [], list(fails)

    def __getattr__(self, name):
        if not name.startswith(("cufftPlan", "cublasCreate", "cusolverDnCreate")):
            return lambda *given: 0

        def made(found, *given):
            assert self.go_on.wait(60)
            self.threads.append(threading.current_thread().name)
            status = self.fails.pop() if self.fails else 0
            if not status:
                found._obj.value = len(self.threads)
            return status

        return made


@pytest.fixture
def slow(monkeypatch):
    planned.install(monkeypatch)
    libraries._handles.clear()
    weft.clear_caches()

    def install(*fails):
        found = Slow(*fails)
        monkeypatch.setattr(libraries, "library", lambda name: found)
        return found

    yield install
    libraries._handles.clear()
    weft.clear_caches()


def calls_of(made):
    return [c for c in commands.leaves(made.commands) if isinstance(c, commands.Called)]


def test_programs_are_planned_while_fourier_transforms_are(slow):
    library = slow()
    made = planned.planned(lambda x: jnp.fft.irfft(jnp.fft.rfft(x) * 2), f32(4, 64))
    assert not library.threads
    library.go_on.set()
    for call in calls_of(made):
        call.function(None, *[0] * len(call.spots))
    assert [x.startswith("weft starts cufft") for x in library.threads] == [True, True]


def test_programs_are_planned_while_handles_are_made(slow):
    library = slow()
    a, b = f32(100, 48, 48), f32(100, 48, 2)
    made = planned.planned(jnp.linalg.solve, a, b)
    assert not library.threads
    library.go_on.set()
    assert libraries.handle("cublas", "cublasCreate_v2").value == 1
    assert libraries.handle("cublas", "cublasCreate_v2").value == 1
    assert [x.startswith("weft starts cublas") for x in library.threads] == [True]
    assert calls_of(made)


def test_what_fails_beside_is_tried_again_by_who_needs_it(slow):
    library = slow(2)
    library.go_on.set()
    plan = fourier._plan((8,), 0x29, 1)
    assert isinstance(plan().value, int)
    *_, last = library.threads
    assert last == threading.current_thread().name


def test_errors_are_those_of_who_needs_it(slow):
    library = slow(2, 2)
    library.go_on.set()
    with pytest.raises(driver.DriverError, match="cufftPlanMany: status 2"):
        fourier._plan((16,), 0x29, 1)()


def test_stacks_are_factorised_without_a_second_library(slow, monkeypatch):
    slow()
    asked = []
    monkeypatch.setattr(libraries, "has", lambda name: asked.append(name) or True)
    planned.planned(lambda a: weft.lax.linalg.lu(a)[0], f32(100, 48, 48))
    assert set(asked) == {"cublas"}


def test_without_a_gpu_in_use_all_is_made_by_the_thread_that_asks(monkeypatch):
    monkeypatch.setattr(driver, "in_use", lambda: None)
    found = libraries.beside("cufft", threading.current_thread)
    assert found() is threading.current_thread()
