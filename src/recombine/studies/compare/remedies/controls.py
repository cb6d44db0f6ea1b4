"""Networks without a remedy."""

from recombine.studies.compare.remedy import NOT_MINI, Remedy, add_in_order

PAPER = "Liang et al. 2025"

add_in_order(0, [
    Remedy("cnn", {"kind": "cnn", "depth": 3}, PAPER),
    Remedy("mlp", {"kind": "mlp", "depth": 3}, PAPER, suites=NOT_MINI),
    Remedy("transformer", {"kind": "transformer", "depth": 1, "heads": 4}, PAPER, multiple=4, suites=NOT_MINI),
    Remedy("pixel_mlp", {"kind": "pixel_mlp"}, PAPER, multiple=4, suites=NOT_MINI),
])  # fmt: skip
