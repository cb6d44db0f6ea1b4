"""Decoders: code → image. Also the encoder of the inverse experiment, image → code."""

from recombine.decoders.cnn import CNN
from recombine.decoders.decoder import DECODERS, Decoder, load
from recombine.decoders.deconv import Deconv
from recombine.decoders.encoder import Encoder
from recombine.decoders.mlp import MLP
from recombine.decoders.pixels import PixelMLP, Transformer
from recombine.decoders.rendered import FactorRendered
from recombine.decoders.renderer import FactorRenderer

__all__ = [
    "CNN",
    "DECODERS",
    "MLP",
    "Decoder",
    "Deconv",
    "Encoder",
    "FactorRendered",
    "FactorRenderer",
    "PixelMLP",
    "Transformer",
    "load",
]
