"""Records what tiny random models of transformers give, into data/huggingface.npz.

Run `python -m tests.linen.architectures.record_huggingface` where torch, transformers and
safetensors are installed. Each model is saved as they save it: its arrays are recorded under the
names that its file has, beside its configuration.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def models():
    import transformers as hf

    t5 = {"vocab_size": 20, "d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2}
    bert = {
        "vocab_size": 20,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 12,
        "max_position_embeddings": 9,
    }
    image = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "num_labels": 3}
    llama = {**bert, "num_attention_heads": 4, "num_key_value_heads": 2, "rope_theta": 500.0}
    resnet = {"embedding_size": 4, "depths": [1, 2], "num_labels": 3}
    return {
        "t5": hf.T5ForConditionalGeneration(hf.T5Config(**t5, num_decoder_layers=1)),
        "t5_v1_1": hf.T5ForConditionalGeneration(
            hf.T5Config(**t5, feed_forward_proj="gated-gelu", tie_word_embeddings=False)
        ),
        "gpt2": hf.GPT2LMHeadModel(
            hf.GPT2Config(vocab_size=20, n_positions=9, n_embd=8, n_layer=2, n_head=2)
        ),
        "llama": hf.LlamaForCausalLM(hf.LlamaConfig(**llama)),
        "bert": hf.BertForPreTraining(hf.BertConfig(**bert)),
        "vit": hf.ViTForImageClassification(
            hf.ViTConfig(image_size=8, patch_size=4, intermediate_size=12, **image)
        ),
        "resnet": hf.ResNetForImageClassification(hf.ResNetConfig(**resnet, hidden_sizes=[16, 32])),
        "resnet_basic": hf.ResNetForImageClassification(
            hf.ResNetConfig(**resnet, hidden_sizes=[4, 8], layer_type="basic")
        ),
    }


def main() -> None:
    import torch
    from safetensors.numpy import load_file

    torch.manual_seed(0)
    draw = np.random.RandomState(0)
    tokens, targets = draw.randint(2, 20, (2, 7)), draw.randint(2, 20, (2, 5))
    padded = np.where(np.arange(7) < np.array([[7], [5]]), tokens, 0)
    types = (np.arange(7) > 3).astype(int) + np.zeros((2, 1), int)
    images = draw.standard_normal((2, 3, 8, 8)).astype(np.float32)
    record = {"tokens": tokens, "targets": targets, "padded": padded, "types": types}
    record["images"] = np.moveaxis(images, 1, -1)
    tensor = torch.from_numpy
    for name, model in models().items():
        for key, value in model.state_dict().items():  # norms and biases are constant otherwise
            if value.dtype == torch.float32:
                value.copy_(torch.randn(value.shape) * 0.3)
                if key.endswith("running_var") or ("norm" in key.lower() and "weight" in key):
                    value.copy_(1 + 0.5 * torch.rand(value.shape))
        model.eval()
        if name.startswith("t5"):
            inputs = tensor(np.concatenate([np.zeros((2, 1), int), targets[:, :-1]], axis=1))
            given = {"attention_mask": tensor(padded > 0), "decoder_input_ids": inputs}
            given["input_ids"] = tensor(padded)
        elif name == "bert":
            mask = tensor((padded > 0).astype(int))
            given = {"input_ids": tensor(tokens), "attention_mask": mask}
            given["token_type_ids"] = tensor(types)
        elif name in ("gpt2", "llama"):
            given = {"input_ids": tensor(tokens)}
        else:
            given = {"pixel_values": tensor(images)}
        with torch.no_grad():
            output = model(**given)
            if name == "bert":
                base = model.bert(**given)
                record["bert/hidden"] = base.last_hidden_state.numpy()
                record["bert/pooled"] = base.pooler_output.numpy()
                record["bert/logits"] = output.prediction_logits.numpy()
            else:
                record[f"{name}/logits"] = output.logits.numpy()
        with tempfile.TemporaryDirectory() as folder:
            model.save_pretrained(folder)
            config = json.loads((Path(folder) / "config.json").read_text())
            record[f"{name}/config"] = np.array(json.dumps(config))
            for key, value in load_file(f"{folder}/model.safetensors").items():
                record[f"{name}/tensors/{key}"] = value
    np.savez_compressed(HERE / "data" / "huggingface.npz", **record)


if __name__ == "__main__":
    main()
