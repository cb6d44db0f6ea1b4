"""Structural similarity of images, batched."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from recombine.core.images import image_axes
from recombine.scoring.metrics.metric import METRICS, Direction, Metric, value_range

SIGMA, RADIUS = 1.5, 5  # scikit-image's gaussian window: truncated at 3.5 σ, rounded
K1, K2 = 0.01, 0.03


@METRICS.register
class SSIM(Metric):
    """Mean structural similarity over pixels and channels, see `ssim`. Absent for images smaller than its window."""

    name = "ssim"
    order = 4
    label = "SSIM"
    direction = Direction.HIGHER

    def applies(self, task):
        axes = image_axes(task.scene.output_shape)
        return not task.inverse and axes is not None and min(axes[1:]) > 2 * RADIUS

    def compute(self, outputs, targets, values, task):
        return ssim(outputs, targets, data_range=value_range(task))


def ssim(
    a: Float[Tensor, "image *channel row column"],
    b: Float[Tensor, "image *channel row column"],
    *,
    data_range: float = 1.0,
) -> Float[Tensor, " image"]:
    """Mean SSIM of pairs of images (Wang et al. 2004), as scikit-image defines it.

    Equals `skimage.metrics.structural_similarity(a, b, gaussian_weights=True, sigma=1.5,
    use_sample_covariance=False, data_range=…, channel_axis=0)`: the mean over all pixels whose 11×11 window lies
    inside the image, and over channels. Other libraries pad or weight differently. Range [−1, 1]; NaN for images
    smaller than the window.
    """
    images = len(a)
    if min(a.shape[-2:]) < 2 * RADIUS + 1:
        return a.new_full((images,), torch.nan)
    kind = a.dtype  # variances are small differences of large numbers
    a, b = (x.double().reshape(-1, *x.shape[-2:]) for x in (a, b))
    offsets = torch.arange(-RADIUS, RADIUS + 1, dtype=a.dtype, device=a.device)
    window = torch.exp(-offsets.square() / (2 * SIGMA**2))
    window = window / window.sum()

    def blur(images: Tensor) -> Tensor:
        images = F.conv2d(images.unsqueeze(1), window[None, None, :, None])
        return F.conv2d(images, window[None, None, None, :]).squeeze(1)

    mean_a, mean_b = blur(a), blur(b)
    var_a, var_b = blur(a * a) - mean_a.square(), blur(b * b) - mean_b.square()
    covariance = blur(a * b) - mean_a * mean_b
    c1, c2 = (K1 * data_range) ** 2, (K2 * data_range) ** 2
    similarity = (2 * mean_a * mean_b + c1) * (2 * covariance + c2)
    similarity = similarity / ((mean_a.square() + mean_b.square() + c1) * (var_a + var_b + c2))
    return similarity.mean((-2, -1)).reshape(images, -1).mean(1).to(kind)
