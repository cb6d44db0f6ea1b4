"""Networks without a remedy."""

from recombine.studies.compare.remedy import REMEDIES, Remedy

PAPER = "Liang et al. 2025"

for order, (name, decoder, multiple) in enumerate(
    (
        ("cnn", {"kind": "cnn", "depth": 3}, 1),
        ("mlp", {"kind": "mlp", "depth": 3}, 1),
        ("transformer", {"kind": "transformer", "depth": 1, "heads": 4}, 4),
        ("pixel_mlp", {"kind": "pixel_mlp"}, 4),
    )
):
    REMEDIES.add(name, Remedy(name, decoder, PAPER, multiple=multiple, order=order))
