"""Loss terms that act as the remedy, on a plain decoder."""

from recombine.studies.compare.remedy import NOT_MINI, Remedy, add_in_order, with_weights

CNN = {"kind": "cnn", "depth": 3}

add_in_order(20, [
    Remedy("cnn_contrast", CNN, "Brady et al. 2023", trials=with_weights("contrast", 1e-4), suites=NOT_MINI),
    Remedy("cnn_hessian", CNN, "Peebles et al. 2020", trials=with_weights("hessian", 1e-2), suites=NOT_MINI),
    Remedy("interaction", {"kind": "cross_attention", "heads": 2}, "Brady et al. 2024", multiple=2, slotted=True,
           trials=with_weights("interaction", 5e-4), suites=NOT_MINI),
])  # fmt: skip
