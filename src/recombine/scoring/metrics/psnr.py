"""Peak signal-to-noise ratio of images."""

from __future__ import annotations

from recombine.core.images import image_axes
from recombine.scoring.metrics.metric import METRICS, Direction, Metric, distance, value_range

SMALLEST = 1e-12  # of the squared range: 120 dB


@METRICS.register
class PSNR(Metric):
    """10 · log₁₀(r² / mean squared error) in decibels, r the length of the scene's range of values.

    Equals `skimage.metrics.peak_signal_noise_ratio(…, data_range=r)` up to 120 dB. An exact output also gets 120 dB:
    its true ratio is infinite and would make every mean infinite.
    """

    name = "psnr"
    order = 3
    label = "PSNR"
    unit = "dB"
    direction = Direction.HIGHER

    def applies(self, task):
        return not task.inverse and image_axes(task.scene.output_shape) is not None

    def compute(self, outputs, targets, values, task):
        share = distance(outputs, targets) / value_range(task) ** 2
        return -10 * share.clamp(min=SMALLEST).log10()
