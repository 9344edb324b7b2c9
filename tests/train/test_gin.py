"""The real gin configures modules, optimisers, schedules and loops, also of experiments."""

import copy
import json
import os

import pytest

import weft
import weft.numpy as jnp
from weft import linen as nn
from weft import optim
from weft.train import launch

gin = pytest.importorskip("gin", reason="needs gin: pip install gin-config")

from tests.train import gin_programs as programs

BASE = """
WIDTH = 16
fit.model = @Network()
fit.tx = @optim.adamw()
fit.keep = @train.Keep()
fit.data = @data.batch()
data.batch.self = @data.arrays()
data.batch.size = 4
data.arrays.tree = @inputs()
inputs.count = 8
train.Keep.last = 3
Network.widths = (%WIDTH, 8)
Network.activation = @nn.gelu
Network.layer = @nn.Dense
nn.Dense.use_bias = False
nn.Dense.dtype = %jnp.bfloat16
nn.Dense.kernel_init = @wide/nn.initializers.variance_scaling()
wide/nn.initializers.variance_scaling.scale = 2.0
wide/nn.initializers.variance_scaling.mode = 'fan_in'
wide/nn.initializers.variance_scaling.distribution = 'truncated_normal'
optim.adamw.learning_rate = @optim.warmup_cosine_decay_schedule()
optim.warmup_cosine_decay_schedule.init_value = 0.0
optim.warmup_cosine_decay_schedule.peak_value = 1e-2
optim.warmup_cosine_decay_schedule.warmup_steps = 2
optim.warmup_cosine_decay_schedule.decay_steps = 100
"""


@pytest.fixture(autouse=True)
def configuration():
    gin.clear_config()
    yield
    gin.clear_config()


def test_a_training_from_files_with_macros_and_includes(tmp_path):
    (tmp_path / "base.gin").write_text(BASE)
    (tmp_path / "small.gin").write_text("include 'base.gin'\nWIDTH = 4\nfit.steps = 3\n")
    gin.add_config_file_search_path(str(tmp_path))
    gin.parse_config_files_and_bindings(["small.gin"], ["Network.activation = @nn.relu"])
    found = programs.fit(None)
    names = {"Dense_0": {"kernel": [3, 4]}, "Dense_1": {"kernel": [4, 8]}}
    assert found["shapes"] == names | {"head": {"kernel": [8, 1]}} and len(found["losses"]) == 3
    assert found["keep"].startswith("Keep(last=3") and found["losses"][0] == found["losses"][1]
    assert found["losses"][2] < found["losses"][0]  # a warm-up from 0 makes no first step
    used = gin.operative_config_str()
    assert "WIDTH = 4" in used and "Network.activation = @nn.relu" in used
    model = programs.Network()
    layer = gin.get_configurable("nn.Dense")(3)
    assert isinstance(layer, nn.Dense) and layer.dtype is jnp.bfloat16 and not layer.use_bias
    # as with plain modules: clones, copies, equality, lifting, and setting what gin has set
    assert model.clone(widths=(2,)).activation is model.activation
    assert copy.deepcopy(model) == model == programs.Network() and hash(model) == hash(
        copy.copy(model)
    )
    lifted = nn.vmap(type(layer), variable_axes={"params": 0}, split_rngs={"params": True})
    params = lifted(2).init(weft.random.key(0), jnp.ones((5, 3)))["params"]
    assert params["kernel"].shape == (5, 3, 2)
    assert type(layer)(3, use_bias=True).use_bias


def test_everything_with_a_signature_can_be_configured():
    """Classes and functions of modules are taken by gin, which wraps signatures and docstrings."""
    for home in (nn, optim, nn.initializers):
        for name in dir(home):
            value = getattr(home, name)
            if callable(value) and not name.startswith("_"):
                wrapped = gin.external_configurable(value, name=name, module=f"all.{home.__name__}")
                assert wrapped.__doc__ == value.__doc__, name


def test_files_that_import_what_they_configure(tmp_path):
    """With dynamic registration, files name weft's modules themselves, as FlaxFormer's do."""
    text = """
from __gin__ import dynamic_registration
from weft import linen as nn
from weft import optim
import tests.train.gin_programs as programs

nn.LayerNorm.epsilon = 0.5
nn.Dropout.rate = 0.25
optim.adam.learning_rate = 0.5
programs.Network.layer = @nn.LayerNorm
programs.Network.widths = (1,)
"""
    (tmp_path / "dynamic.gin").write_text(text)
    gin.parse_config_file(str(tmp_path / "dynamic.gin"))
    norm = gin.get_configurable(nn.LayerNorm)()
    assert isinstance(norm, nn.LayerNorm) and norm.epsilon == 0.5
    assert gin.get_configurable(nn.Dropout)().rate == 0.25
    update = gin.get_configurable(optim.adam)().update
    assert float(update(jnp.ones(()), optim.adam(0.5).init(jnp.ones(())))[0]) < -0.4
    assert programs.Network().layer().epsilon == 0.5


def test_wrong_bindings_are_told():
    with pytest.raises(ValueError, match="doesn't have a parameter named 'featurs'"):
        gin.parse_config("nn.Dense.featurs = 3")
    with pytest.raises(TypeError, match=r"'features'(?s:.*)No values supplied by Gin"):
        gin.get_configurable("nn.Dense")()


def test_an_experiment_of_bindings(tmp_path):
    (tmp_path / "base.gin").write_text(BASE)
    sweep = [
        launch.Gin.from_dict({"Network.widths": widths, "fit.steps": 1}, [tmp_path / "base.gin"])
        for widths in ((2,), (2, 3))
    ]
    with launch.create_experiment(tmp_path / "sweep", verbose=False) as experiment:
        units = experiment.add_sweep(programs.fit, sweep)
        wrong = experiment.add(programs.fit, launch.Gin(["nn.Dense.featurs = 3"]))
    assert [unit.status.state for unit in units] == ["completed", "completed"]
    assert [len(unit.result["shapes"]) for unit in units] == [2, 3]
    assert "doesn't have a parameter" in wrong.status.error
    text = (units[0].folder / "attempts" / "1" / "operative.gin").read_text()
    assert "Network.widths = (2,)" in text and "fit.steps = 1" in text
    ended = json.loads((units[0].folder / "attempts" / "1" / "exit.json").read_text())
    assert len(ended["devices"]) == len(weft.devices()) and ended["versions"]["numpy"]
    # a file that was edited is another configuration
    (tmp_path / "base.gin").write_text(BASE.replace("WIDTH = 16", "WIDTH = 32"))
    with launch.create_experiment(tmp_path / "sweep", verbose=False) as experiment:
        made = experiment.add(programs.fit, sweep[0])
        made.stop()
    assert made.work_unit_id == 4 and os.path.exists(made.folder)
