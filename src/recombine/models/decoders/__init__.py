"""Decoders: code → image. Also the encoder of the inverse experiment, image → code."""

from recombine.models.composed.composer import FactorComposer
from recombine.models.decoder import DECODERS, Decoder, load
from recombine.models.decoders.cnn import CNN
from recombine.models.decoders.composed import Composed
from recombine.models.decoders.deconv import Deconv
from recombine.models.decoders.encoder import Encoder
from recombine.models.decoders.mlp import MLP
from recombine.models.decoders.pixels import PixelMLP, Transformer
from recombine.models.decoders.rendered import FactorRendered
from recombine.models.forced_rendering.renderer import FactorRenderer

__all__ = [
    "CNN",
    "DECODERS",
    "MLP",
    "Composed",
    "Decoder",
    "Deconv",
    "Encoder",
    "FactorComposer",
    "FactorRendered",
    "FactorRenderer",
    "PixelMLP",
    "Transformer",
    "load",
]
