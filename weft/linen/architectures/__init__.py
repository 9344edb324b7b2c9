"""Known networks on ``weft.linen``: T5, GPT, BERT, ViT, ResNet and U-Net.

Each is a module that takes a configuration, in a file that can be read in one sitting and copied
into a project of your own: it uses public names only. ``Config.named`` has the published sizes.
"""

import typing as _typing

from weft.base import lazy as _lazy

if _typing.TYPE_CHECKING:
    from weft.linen.architectures import bert as bert
    from weft.linen.architectures import decoding as decoding
    from weft.linen.architectures import gpt as gpt
    from weft.linen.architectures import prompts as prompts
    from weft.linen.architectures import resnet as resnet
    from weft.linen.architectures import t5 as t5
    from weft.linen.architectures import unet as unet
    from weft.linen.architectures import vit as vit
    from weft.linen.architectures.bert import BERT as BERT
    from weft.linen.architectures.bert import BERTConfig as BERTConfig
    from weft.linen.architectures.bert import BERTOutput as BERTOutput
    from weft.linen.architectures.config import Config as Config
    from weft.linen.architectures.config import stack_layers as stack_layers
    from weft.linen.architectures.decoding import beam_search as beam_search
    from weft.linen.architectures.decoding import sample as sample
    from weft.linen.architectures.gpt import GPT as GPT
    from weft.linen.architectures.gpt_config import GPTConfig as GPTConfig
    from weft.linen.architectures.huggingface import Pretrained as Pretrained
    from weft.linen.architectures.huggingface import from_huggingface as from_huggingface
    from weft.linen.architectures.resnet import ResNet as ResNet
    from weft.linen.architectures.resnet import ResNetConfig as ResNetConfig
    from weft.linen.architectures.t5 import T5 as T5
    from weft.linen.architectures.t5_config import T5Config as T5Config
    from weft.linen.architectures.unet import UNet as UNet
    from weft.linen.architectures.unet import UNetConfig as UNetConfig
    from weft.linen.architectures.vit import ViT as ViT
    from weft.linen.architectures.vit import ViTConfig as ViTConfig
else:  # each file is loaded when one of its names is first looked at
    __getattr__, __dir__ = _lazy.members(
        __name__,
        "bert decoding gpt prompts resnet t5 unet vit".split(),
        {
            "weft.linen.architectures.bert": "BERT BERTConfig BERTOutput",
            "weft.linen.architectures.config": "Config stack_layers",
            "weft.linen.architectures.decoding": "beam_search sample",
            "weft.linen.architectures.gpt": "GPT",
            "weft.linen.architectures.gpt_config": "GPTConfig",
            "weft.linen.architectures.huggingface": "Pretrained from_huggingface",
            "weft.linen.architectures.resnet": "ResNet ResNetConfig",
            "weft.linen.architectures.t5": "T5",
            "weft.linen.architectures.t5_config": "T5Config",
            "weft.linen.architectures.unet": "UNet UNetConfig",
            "weft.linen.architectures.vit": "ViT ViTConfig",
        },
        public=False,
    )
