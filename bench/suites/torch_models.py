"""The same training steps as `models`, as torch is written: tensors and its own functions."""

from __future__ import annotations

from typing import Any

from bench.libraries import leaves, tree_map
from bench.suites.models import STRIDES


def _gradients(torch: Any, params: Any, loss: Any) -> tuple[Any, list[Any], Any]:
    """The parameters as leaves that count, in order, with the loss and its gradients."""
    counted = tree_map(lambda p: p.detach().requires_grad_(), params)
    value = loss(counted)
    flat = leaves(counted)
    return value, flat, torch.autograd.grad(value, flat)


def sgd(torch: Any, loss: Any, rate: float = 0.1) -> Any:
    def step(params: Any, *batch: Any) -> Any:
        value, flat, grads = _gradients(torch, params, lambda p: loss(p, *batch))
        return value, [p.detach() - rate * g for p, g in zip(flat, grads)]

    return step


def adam(torch: Any, loss: Any, rate: float = 1e-3) -> Any:
    def step(params: Any, state: Any, *batch: Any) -> Any:
        value, flat, grads = _gradients(torch, params, lambda p: loss(p, *batch))
        count, first, second = state[0] + 1, leaves(state[1]), leaves(state[2])
        first = [0.9 * m + 0.1 * g for m, g in zip(first, grads)]
        second = [0.999 * v + 0.001 * g * g for v, g in zip(second, grads)]
        unbias1, unbias2 = 1 / (1 - 0.9**count), 1 / (1 - 0.999**count)
        moved = [
            p.detach() - rate * (m * unbias1) / (torch.sqrt(v * unbias2) + 1e-8)
            for p, m, v in zip(flat, first, second)
        ]
        return value, moved, (count, first, second)

    return step


def mlp_loss(torch: Any) -> Any:
    def loss(params: Any, x: Any, labels: Any) -> Any:
        for layer in params[:-1]:
            x = torch.relu(torch.addmm(layer["b"], x, layer["w"]))
        logits = torch.addmm(params[-1]["b"], x, params[-1]["w"])
        return torch.nn.functional.cross_entropy(logits, labels.long())

    return loss


def language_loss(torch: Any, head_width: int = 32) -> Any:
    functions = torch.nn.functional

    def norm(x: Any, gain: Any) -> Any:
        return functions.layer_norm(x, x.shape[-1:], gain)

    def attention(p: Any, x: Any) -> Any:
        batch, time, width = x.shape
        parts = (x @ p["qkv"]).reshape(batch, time, 3, width // head_width, head_width)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = functions.scaled_dot_product_attention(query, key, value, is_causal=True)
        return mixed.transpose(1, 2).reshape(batch, time, width) @ p["out"]

    def loss(params: Any, tokens: Any) -> Any:
        x = functions.embedding(tokens[:, :-1].long(), params["embed"]) + params["where"]
        for p in params["blocks"]:
            x = x + attention(p, norm(x, p["gain1"]))
            hidden = functions.gelu(norm(x, p["gain2"]) @ p["up"], approximate="tanh")
            x = x + hidden @ p["down"]
        logits = norm(x, params["gain"]) @ params["head"]
        return functions.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten().long())

    return loss


def resnet_loss(torch: Any) -> Any:
    functions = torch.nn.functional

    def conv(x: Any, w: Any, stride: int = 1) -> Any:
        # Even sizes and stride 2: "SAME" pads one row less before than after.
        if stride == 2 and w.shape[0] == 3:
            x = functions.pad(x, (0, 1, 0, 1))
        padding = 1 if stride == 1 and w.shape[0] == 3 else 0
        return functions.conv2d(x, w.permute(3, 2, 0, 1), stride=stride, padding=padding)

    def norm(x: Any, p: Any) -> Any:
        return functions.batch_norm(x, None, None, p["gain"], p["shift"], training=True)

    def block(x: Any, p: Any, stride: int) -> Any:
        y = torch.relu(norm(conv(x, p["conv1"], stride), p["norm1"]))
        y = norm(conv(y, p["conv2"]), p["norm2"])
        short = norm(conv(x, p["short"], stride), p["norm3"]) if "short" in p else x
        return torch.relu(y + short)

    def loss(params: Any, x: Any, labels: Any) -> Any:
        x = x.permute(0, 3, 1, 2)
        x = torch.relu(norm(conv(x, params["stem"]), params["norm"]))
        for p, stride in zip(params["blocks"], STRIDES):
            x = block(x, p, stride)
        return functions.cross_entropy(x.mean((2, 3)) @ params["head"], labels.long())

    return loss
