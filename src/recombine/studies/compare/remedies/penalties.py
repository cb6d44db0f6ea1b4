"""Loss terms and examples that act as the remedy, on a plain decoder."""

from recombine.studies.compare.remedy import RATES, REMEDIES, Remedy, with_weights

CNN = {"kind": "cnn", "depth": 3}

for order, remedy in enumerate(
    (
        Remedy("cnn_contrast", CNN, "Brady et al. 2023", trials=with_weights("contrast", 1e-4)),
        Remedy("cnn_hessian", CNN, "Peebles et al. 2020", trials=with_weights("hessian", 1e-2)),
        Remedy(
            "interaction", {"kind": "cross_attention", "heads": 2}, "Brady et al. 2024", multiple=2, slotted=True,
            trials=with_weights("interaction", 5e-3),
        ),
        Remedy("cnn_mixup", CNN, "Zhang et al. 2018", training={"examples": {"mixup": {}}}, trials=RATES),
    ),
    20,
):  # fmt: skip
    REMEDIES.add(remedy.name, Remedy(**{**vars(remedy), "order": order}))
