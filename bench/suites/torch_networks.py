"""The networks of the suite `networks` as torch is written: its modules, its optimiser."""

from __future__ import annotations

from typing import Any

from bench.rows import Program


def step(make: Any, data: Any) -> Any:
    """A training step with AdamW: the loss; parameters and states are changed in place."""

    def setup(torch: Any) -> Program:
        torch.manual_seed(0)
        model = make(torch)
        optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-4)

        def run(x: Any, y: Any) -> Any:
            logits = model(x)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, -2), y.flatten().long())
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            return loss.detach()

        return Program(run, data())

    return setup


def mlp(torch: Any) -> Any:
    nn = torch.nn
    layers: list[Any] = []
    for before, after in ((784, 512), (512, 512), (512, 256)):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(256, 10))


def resnet(torch: Any) -> Any:
    nn = torch.nn

    def conv(before: int, after: int, size: int, stride: int = 1) -> Any:
        return nn.Conv2d(before, after, size, stride, padding=size // 2, bias=False)

    class Block(nn.Module):
        def __init__(self, before: int, after: int, stride: int) -> None:
            super().__init__()
            norm = nn.BatchNorm2d
            first = [conv(before, after, 3, stride), norm(after), nn.ReLU()]
            self.body = nn.Sequential(*first, conv(after, after, 3), norm(after))
            self.short = nn.Identity()
            if before != after or stride != 1:
                self.short = nn.Sequential(conv(before, after, 1, stride), norm(after))

        def forward(self, x: Any) -> Any:
            return torch.relu(self.body(x) + self.short(x))

    class ResNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layers = [conv(3, 64, 3), nn.BatchNorm2d(64), nn.ReLU()]
            before = 64
            for stage, width in enumerate((64, 128, 256, 512)):
                for i in range(2):
                    layers.append(Block(before, width, 2 if i == 0 and stage else 1))
                    before = width
            self.body, self.head = nn.Sequential(*layers), nn.Linear(512, 10)

        def forward(self, x: Any) -> Any:
            x = x.permute(0, 3, 1, 2)  # channels stay last in memory
            return self.head(self.body(x).mean((2, 3)))

    return ResNet().to(memory_format=torch.channels_last)


def _block(torch: Any, width: int, heads: int, causal: bool) -> Any:
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            gelu = nn.GELU(approximate="tanh")
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), gelu, nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            batch, time, _ = x.shape
            parts = self.qkv(self.norm1(x)).view(batch, time, 3, heads, width // heads)
            mixed = nn.functional.scaled_dot_product_attention(
                *parts.permute(2, 0, 3, 1, 4), is_causal=causal
            )
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, time, width))
            return x + self.mlp(self.norm2(x))

    return Block()


def transformer(layers: int) -> Any:
    def make(torch: Any) -> Any:
        nn = torch.nn

        class Transformer(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embed = nn.Embedding(1000, 256)
                self.blocks = nn.Sequential(*(_block(torch, 256, 8, True) for _ in range(layers)))
                self.norm, self.head = nn.LayerNorm(256), nn.Linear(256, 1000)

            def forward(self, tokens: Any) -> Any:
                return self.head(self.norm(self.blocks(self.embed(tokens))))

        return Transformer()

    return make


def lstm(torch: Any) -> Any:
    nn = torch.nn

    class LSTM(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.LSTM(64, 128, num_layers=2, batch_first=True)
            self.head = nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.body(x)[0][:, -1])

    return LSTM()


def vit(torch: Any) -> Any:
    nn = torch.nn

    class ViT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, 128, 4, 4)
            self.position = nn.Parameter(0.02 * torch.randn(1, 64, 128))
            self.blocks = nn.Sequential(*(_block(torch, 128, 4, False) for _ in range(4)))
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 10)

        def forward(self, x: Any) -> Any:
            x = self.patches(x.permute(0, 3, 1, 2)).flatten(2).transpose(1, 2) + self.position
            return self.head(self.norm(self.blocks(x)).mean(1))

    return ViT()
