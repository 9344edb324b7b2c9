"""Models of Hugging Face's transformers, from files in their layout: recorded outputs, and faults.

The record has tiny random models; record_huggingface.py makes it.
"""

import json

import ml_dtypes
import numpy as np
import pytest

import weft
import weft.numpy as jnp
from tests.linen.architectures.harness import close, recorded
from weft.linen.architectures import GPTConfig, beam_search, from_huggingface
from weft.train import CheckpointError, load_huggingface
from weft.train.checkpoint import save_safetensors

NAMES = ["t5", "t5_v1_1", "gpt2", "llama", "bert", "vit", "resnet", "resnet_basic"]


@pytest.fixture(scope="module")
def record():
    return recorded("huggingface")


def saved(record, name):
    """The configuration and the arrays of a recorded model."""
    prefix = f"{name}/tensors/"
    tensors = {k.removeprefix(prefix): v for k, v in record.items() if k.startswith(prefix)}
    return json.loads(str(record[f"{name}/config"])), tensors


def inputs(record, name):
    if name.startswith("t5"):
        start = np.zeros((2, 1), int)
        return record["padded"], np.concatenate([start, record["targets"][:, :-1]], axis=1)
    if name == "bert":
        return record["tokens"], record["types"], record["padded"] > 0
    return (record["tokens" if name in ("gpt2", "llama") else "images"],)


def write(folder, config, tensors, shards=1):
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        save_safetensors(tensors, folder / "model.safetensors")
        return
    table, names = {}, sorted(tensors)
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        save_safetensors({name: tensors[name] for name in names[i::shards]}, folder / file)
        table |= dict.fromkeys(names[i::shards], file)
    index = {"metadata": {}, "weight_map": table}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


@pytest.mark.parametrize("name", NAMES)
def test_saved_models_give_the_outputs_of_transformers(record, name, tmp_path):
    config, tensors = saved(record, name)
    write(tmp_path, config, tensors, shards=1 + NAMES.index(name) % 2)
    model, variables = load_huggingface(tmp_path)
    output = weft.jit(model.apply)(variables, *map(jnp.asarray, inputs(record, name)))
    if name == "bert":
        seen = record["padded"] > 0
        close(output.hidden[seen], record["bert/hidden"][seen])
        close(output.pooled, record["bert/pooled"])
        close(output.logits[seen], record["bert/logits"][seen])
    else:
        close(output, record[f"{name}/logits"], 2e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
@pytest.mark.parametrize("scan", [False, True])
def test_cached_decoding_writes_what_whole_texts_give(record, name, scan):
    config, tensors = saved(record, name)
    model, variables = from_huggingface(tensors, config, scan_layers=scan)
    prompt = jnp.asarray(record["tokens"][:, :2])
    texts = weft.jit(lambda v: model.generate(v, prompt, max_length=8))(variables)
    np.testing.assert_array_equal(texts[:, :2], prompt)
    logits = weft.jit(model.apply)(variables, texts)
    np.testing.assert_array_equal(texts[:, 2:], jnp.argmax(logits, axis=-1)[:, 1:-1])


@pytest.mark.parametrize("scan", [False, True])
def test_a_beam_search_with_a_cache_finds_what_one_without_finds(record, scan):
    config, tensors = saved(record, "gpt2")
    model, variables = from_huggingface(tensors, config, scan_layers=scan)
    first = jnp.asarray(record["tokens"][:, :1])

    def whole(tokens, cache):
        texts, i = cache
        texts = texts.at[:, i].set(tokens[:, 0])
        return model.apply(variables, texts)[:, i], (texts, i + 1)

    start = jnp.zeros((6, 6), jnp.int32), 0
    options = {"beams": 3, "max_length": 6, "eos_id": 0, "length_penalty": 0.6}
    expected = weft.jit(lambda: beam_search(whole, start, first, **options)[0][:, 0])()
    found = weft.jit(lambda v: model.generate(v, first, **options))(variables)
    np.testing.assert_array_equal(found, expected)


def test_packed_texts_do_not_see_each_other(record):
    config, tensors = saved(record, "llama")
    model, variables = from_huggingface(tensors, config)
    tokens = jnp.asarray(record["tokens"])
    apart = model.apply(variables, tokens[:, 3:])
    segments = jnp.array([[1, 1, 1, 2, 2, 2, 2]] * 2)
    positions = jnp.array([[0, 1, 2, 0, 1, 2, 3]] * 2)
    close(model.apply(variables, tokens, positions, segments)[:, 3:], apart)


def test_old_names_other_dtypes_and_bare_models_load(record):
    config, tensors = saved(record, "bert")
    old = {k.replace("LayerNorm.weight", "LayerNorm.gamma"): v for k, v in tensors.items()}
    old = {k.replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in old.items()}
    bare = {k.removeprefix("bert."): v for k, v in tensors.items() if k.startswith("bert.")}
    half = {k: v.astype(ml_dtypes.bfloat16) for k, v in tensors.items()}
    full = from_huggingface(tensors, config).variables["params"]
    weft.tree.map(close, from_huggingface(old, config).variables["params"], full)
    model, variables = from_huggingface(bare, config)
    assert not model.config.masked_lm and model.config.pooler
    weft.tree.map(close, variables["params"], {k: full[k] for k in variables["params"]})
    rounded = from_huggingface(half, config).variables["params"]
    assert rounded["pooler"]["kernel"].dtype == jnp.float32
    weft.tree.map(lambda a, b: close(a, b, 1e-2), rounded, full)


def test_a_configuration_of_ours_does_as_well(record):
    config, tensors = saved(record, "gpt2")
    sizes = {"vocab_size": 20, "max_length": 9, "features": 8, "hidden": 32, "num_layers": 2}
    own = GPTConfig.named("gpt2", num_heads=2, **sizes)
    given = from_huggingface(tensors, own, "gpt2")
    weft.tree.map(close, given.variables, from_huggingface(tensors, config).variables)
    assert given.model.config == own


def test_what_does_not_fit_is_named(record):
    config, tensors = saved(record, "gpt2")
    less = {k: v for k, v in tensors.items() if not k.endswith("wpe.weight")}
    with pytest.raises(ValueError, match=r"'wpe\.weight' is missing; places/embedding is read"):
        from_huggingface(less, config)
    with pytest.raises(ValueError, match="1 arrays are not part of this gpt2 model: adapter"):
        from_huggingface({**tensors, "adapter": np.ones(2)}, config)
    with pytest.raises(ValueError, match=r"'wte.weight' has the shape \(20, 8\)"):
        from_huggingface(tensors, {**config, "vocab_size": 21})
    with pytest.raises(ValueError, match="activation_function='relu'; supported is 'gelu_new'"):
        from_huggingface(tensors, {**config, "activation_function": "relu"})
    with pytest.raises(ValueError, match="kind='opt' is not one of t5, gpt2"):
        from_huggingface(tensors, {**config, "model_type": "opt"})
    llama, more = saved(record, "llama")
    scaled = {"rope_theta": 1e4, "rope_type": "llama3"}
    with pytest.raises(ValueError, match="rope_type='llama3'; supported is 'default'"):
        from_huggingface(more, {**llama, "rope_parameters": scaled})


def test_damaged_folders_are_refused(record, tmp_path):
    with pytest.raises(CheckpointError, match=r"config\.json"):
        load_huggingface(tmp_path)
    config, tensors = saved(record, "gpt2")
    write(tmp_path, config, tensors, shards=2)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../model-00001-of-00002.safetensors"}}))
    with pytest.raises(CheckpointError, match="a file in the folder"):
        load_huggingface(tmp_path)
    index.unlink()
    (tmp_path / "model.safetensors").write_bytes(b"\x80\x04not a safetensors file")
    with pytest.raises(CheckpointError, match="not a safetensors file"):
        load_huggingface(tmp_path)
