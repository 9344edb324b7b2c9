"""What a prompt or an editor offers after a dot, before anything was used."""

import json
import subprocess
import sys

import pytest

ASK = """
import json, rlcompleter, sys
import weft, weft.linen, weft.optim, weft.train
nn = weft.linen

def offered(text):
    completer, found = rlcompleter.Completer({"weft": weft, "nn": nn}), []
    while (name := completer.complete(text, len(found))) is not None:
        found.append(name)
    return [name.rstrip("()").rpartition(".")[2] for name in found]

print(json.dumps({text: offered(text) for text in json.loads(sys.argv[1])}))
"""

# What is typed, and some of what must be offered.
WANTED = {
    "weft.": "grad jit vmap numpy lax random nn linen optim train scipy explain tree Array",
    "weft.gr": "grad",
    "weft.numpy.": "sum linalg fft float32 pi ndarray einsum",
    "weft.numpy.linalg.": "norm svd solve",
    "weft.numpy.cum": "cumsum cumprod",
    "weft.lax.": "scan cond while_loop linalg psum fori_loop add_p",
    "weft.random.": "normal key split PRNGKey categorical",
    "weft.nn.": "relu gelu initializers softmax",
    "weft.nn.initializers.": "lecun_normal zeros he_normal",
    "weft.scipy.": "linalg special stats optimize",
    "weft.scipy.special.": "logsumexp erf gammaln",
    "weft.scipy.stats.": "norm",
    "weft.linen.De": "Dense DenseGeneral",
    "nn.": "Module Dense Conv compact relu",
    "weft.optim.ada": "adam adamw adagrad",
    "weft.train.": "TrainState CheckpointManager data metrics",
    "weft.tree.": "map leaves structure",
    "weft.tree_util.tree_m": "tree_map",
    "weft.debug.": "print callback breakpoint",
    "weft.profiler.": "trace start_trace",
    "weft.sharding.": "Mesh NamedSharding PartitionSpec",
    "weft.export.": "export deserialize",
    "weft.image.": "resize",
    "weft.ops.": "segment_sum",
    "weft.experimental.": "io_callback",
    "weft.custom_derivatives.": "linear_call",
    "weft.stages.": "Compiled Lowered",
    "weft.config.": "update",
}


@pytest.fixture(scope="module")
def offers():
    command = [sys.executable, "-c", ASK, json.dumps(list(WANTED))]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize("text", WANTED)
def test_names_are_offered_before_they_are_used(offers, text):
    assert {*WANTED[text].split()} <= {*offers[text]}
