"""A plugin that is there for one test."""

import pytest

import weft
from tests.backends.pjrt.stand_in import StandIn
from weft.backends.pjrt import plugins
from weft.base import knobs
from weft.runtime import devices


@pytest.fixture
def make_plugin():
    """Makes plugins, and their devices."""
    names, before = [], weft.config.jax_platforms

    def make(name="stand_in", **options):
        made = StandIn(**options)
        plugins.register(name, open=lambda: made.open(name), options={"speed": 3})
        names.append(name)
        weft.config.update("jax_platforms", ",".join([before or "cpu", *names]))
        return made

    with knobs.scope(cache="off"):
        yield make
    weft.config.update("jax_platforms", before)
    for name in names:
        plugins.unregister(name)
        devices._others.pop(name, None)


@pytest.fixture
def plugin(make_plugin):
    made = make_plugin()
    made.places = weft.devices("stand_in")
    return made
