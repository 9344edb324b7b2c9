"""What torch runs in the GPU's rows: the networks of `cuda_models`, and calls on arrays.

A setup compiles what it times by itself where more than one function has to be: a network's loss
with its gradients, and an optimiser's step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.rows import Program
from bench.suites import cuda_models as models


def arrays(function: Any, arguments: Any, dtype: str | None = None) -> Any:
    """A setup of a function that takes torch first, then what is made for it."""
    return lambda torch: Program(lambda *a: function(torch, *a), arguments(), dtype, wait=False)


def chain(torch: Any, x: Any) -> Any:
    for i in range(10):
        x = torch.sin(x) * 1.1 + 0.5 if i % 5 == 0 else x * 1.01 + 0.5
    return x


def layer_norm(torch: Any, x: Any) -> Any:
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


def gelu_product(torch: Any, x: Any) -> Any:
    return torch.nn.functional.gelu(x @ x, approximate="tanh")


def attention(torch: Any) -> Any:
    """Forward and both gradients, of arrays with heads before positions."""
    shape = (8, 16, 4096, 128)
    make = lambda: torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    q, k, v, g = make(), make(), make(), make().detach()
    attend = torch.compile(torch.nn.functional.scaled_dot_product_attention)

    def run() -> Any:
        out = attend(q, k, v, is_causal=True)
        return out, torch.autograd.grad(out, (q, k, v), g)

    return run


def network_step(torch: Any) -> Any:
    w1, w2, x, y = (torch.from_numpy(a).cuda() for a in models.network_arguments())
    w1.requires_grad_(True)
    w2.requires_grad_(True)
    value = torch.compile(lambda: ((torch.tanh(x @ w1) @ w2 - y) ** 2).mean())

    def run() -> Any:
        g1, g2 = torch.autograd.grad(value(), (w1, w2))
        with torch.no_grad():
            return w1 - 0.1 * g1, w2 - 0.1 * g2

    return run


def _tensors(torch: Any, tree: Any) -> Any:
    return models.mapped(lambda a: torch.tensor(a, device="cuda", requires_grad=True), tree)


def _leaves(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [x for k in tree for x in _leaves(tree[k])]
    return [x for v in tree for x in _leaves(v)] if isinstance(tree, list) else [tree]


def _layer(torch: Any, x: Any, p: Any, attend: Any) -> Any:
    f = torch.nn.functional
    narrow = lambda w: w.to(torch.bfloat16)
    norm = lambda x, g: narrow(f.layer_norm(x.float(), x.shape[-1:], g.float()))
    q, k, v = (norm(x, p["first"]) @ narrow(p["qkv"])).chunk(3, -1)
    x = x + attend(q, k, v).reshape(x.shape) @ narrow(p["out"])
    wide = norm(x, p["second"]) @ narrow(p["up"])
    return x + f.gelu(wide, approximate="tanh") @ narrow(p["down"])


def training(torch: Any) -> Any:
    f, heads = torch.nn.functional, models.HEADS
    params = _tensors(torch, models.parameters())
    tokens, targets = (torch.from_numpy(t).cuda().long() for t in models.texts())
    optimiser = torch.optim.Adam(_leaves(params), lr=1e-4, betas=(0.9, 0.95), fused=True)

    def attend(q: Any, k: Any, v: Any) -> Any:
        q, k, v = (z.unflatten(-1, (heads, -1)).transpose(1, 2) for z in (q, k, v))
        return f.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)

    @torch.compile
    def loss() -> Any:
        words = params["words"].to(torch.bfloat16)
        x = words[tokens] + params["places"].to(torch.bfloat16)[None]
        for p in params["layers"]:
            x = _layer(torch, x, p, attend)
        x = f.layer_norm(x.float(), x.shape[-1:], params["last"]).to(torch.bfloat16)
        logits = (x @ words.T).float()
        return f.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def run() -> Any:
        value = loss()
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        return value

    return run


def decoding(torch: Any) -> Any:
    f, heads = torch.nn.functional, models.HEADS
    narrow = lambda a: torch.tensor(a, device="cuda").to(torch.bfloat16)
    params = models.mapped(narrow, models.parameters())
    shape = (models.LENGTH, heads, models.WIDTH // heads)
    make = lambda: torch.zeros(shape, device="cuda", dtype=torch.bfloat16)
    caches = [(make(), make()) for _ in range(models.LAYERS)]
    places = torch.arange(models.LENGTH, device="cuda")

    def token(word: Any, at: Any) -> Any:
        x = params["words"][word] + params["places"][at]
        mask = (places <= at)[None, :]
        for p, (keys, values) in zip(params["layers"], caches, strict=True):

            def attend(q: Any, k: Any, v: Any, keys: Any = keys, values: Any = values) -> Any:
                q, k, v = (z.view(1, heads, -1) for z in (q, k, v))
                keys.index_copy_(0, at, k)
                values.index_copy_(0, at, v)
                q, k, v = (z.transpose(0, 1) for z in (q, keys, values))
                return f.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(0, 1)

            x = _layer(torch, x, p, attend)
        x = f.layer_norm(x.float(), x.shape[-1:], params["last"].float()).to(torch.bfloat16)
        return (x @ params["words"].T).argmax(-1)

    compiled = torch.compile(token, mode="reduce-overhead")
    first = torch.tensor([1], device="cuda")

    def run() -> Any:
        word, at = first, torch.tensor([100], device="cuda")
        with torch.no_grad():
            for _ in range(models.TOKENS):
                word, at = compiled(word, at).clone(), at + 1
        return word

    return run


def images_step(torch: Any) -> Any:
    f = torch.nn.functional
    narrow = lambda w: w.to(torch.bfloat16)

    def oriented(a: np.ndarray) -> Any:
        if a.ndim == 4:  # filters: channels out, channels in, rows, columns
            a = np.ascontiguousarray(a.transpose(3, 2, 0, 1))
            made = torch.tensor(a, device="cuda").contiguous(memory_format=torch.channels_last)
            return made.requires_grad_(True)
        return torch.tensor(a, device="cuda", requires_grad=True)

    params, _, images, labels = models.images_arguments()
    params = models.mapped(oriented, params)
    images = torch.tensor(images, device="cuda").permute(0, 3, 1, 2)
    labels = torch.tensor(labels, device="cuda").long()
    optimiser = torch.optim.SGD(_leaves(params), lr=0.01, momentum=0.9, fused=True)

    def unit(x: Any, p: Any, stride: int = 1) -> Any:
        size = p["filter"].shape[-1]
        y = f.conv2d(x, narrow(p["filter"]), stride=stride, padding=size // 2)
        return f.batch_norm(y, None, None, p["scale"], p["shift"], training=True)

    @torch.compile
    def loss() -> Any:
        x = f.relu(unit(narrow(images), params["first"], 2))
        x = f.max_pool2d(x, 3, 2, 1)
        for units, (_, _, _, stride) in zip(params["layers"], models.blocks(), strict=True):
            y = f.relu(unit(x, units[0]))
            y = unit(f.relu(unit(y, units[1], stride)), units[2])
            x = f.relu(y + (unit(x, units[3], stride) if len(units) > 3 else x))
        logits = (narrow(x.float().mean((2, 3))) @ narrow(params["last"])).float()
        return f.cross_entropy(logits, labels)

    def run() -> Any:
        value = loss()
        value.backward()
        optimiser.step()
        optimiser.zero_grad()
        return value

    return run
