"""Decoders: code → image. Also the encoder of the inverse experiment, image → code."""

from recombine.core.registry import import_members
from recombine.models.composed.composer import FactorComposer
from recombine.models.decoder import DECODERS, Decoder, load
from recombine.models.decoders.additive import Additive
from recombine.models.decoders.cnn import CNN
from recombine.models.decoders.composed import Composed
from recombine.models.decoders.coordinates import CoordConv, SpatialBroadcast
from recombine.models.decoders.cp import CP
from recombine.models.decoders.cross_attention import CrossAttention
from recombine.models.decoders.deconv import Deconv
from recombine.models.decoders.encoder import Encoder
from recombine.models.decoders.film import FiLM
from recombine.models.decoders.masked_slots import MaskedSlots
from recombine.models.decoders.mlp import MLP
from recombine.models.decoders.occlusion_sum import OcclusionSum
from recombine.models.decoders.pixels import PixelMLP, Transformer
from recombine.models.decoders.rendered import FactorRendered
from recombine.models.forced_rendering.renderer import FactorRenderer

import_members(__name__)

__all__ = [
    "CNN",
    "CP",
    "DECODERS",
    "MLP",
    "Additive",
    "Composed",
    "CoordConv",
    "CrossAttention",
    "Decoder",
    "Deconv",
    "Encoder",
    "FactorComposer",
    "FactorRendered",
    "FactorRenderer",
    "FiLM",
    "MaskedSlots",
    "OcclusionSum",
    "PixelMLP",
    "SpatialBroadcast",
    "Transformer",
    "load",
]
