"""Remedies that need a larger budget, each with a control that receives the same extra."""

from recombine.studies.compare.remedy import NOT_MINI, Remedy, add_in_order

CNN = {"kind": "cnn", "depth": 3}
DECAY = {"optimizer": {"weight_decay": 0.1}}
STRIPES = {"examples": {"single_factor": {}}}
MIXUP = {"examples": {"mixup": {}}}
LOW_RANK = {"terms": {"entropy": {"weight": 1e-4}, "variance": {"weight": 1e-5}}}
COMPOSED_TRIALS = [
    {"training": {"learning_rate": rate}, "decoder": {"blend": blend}}
    for rate, blend in ((1e-2, "add"), (2e-2, "add"), (1e-2, "over"))
]
FEWER_CELLS = {"decoder": {"allow_undetermined": True}}  # a trial holds out more cells, and may leave values apart

add_in_order(40, [
    Remedy("cnn_longer", CNN, "control: twice the steps", steps=2.0, suites=NOT_MINI),
    Remedy("cnn_stripes", CNN, "Liang et al. 2025", training=STRIPES, steps=2.0, extra=True, control="cnn_longer"),
    Remedy("cnn_mixup", CNN, "Zhang et al. 2018", training=MIXUP, steps=2.0, extra=True, control="cnn_longer",
           suites=NOT_MINI),
    Remedy("cnn_more", CNN, "more combinations per value", released=0.5, control="cnn", suites=NOT_MINI),
    Remedy("cnn_wider", CNN, "Redhardt et al. 2025", parameters=4.0, control="cnn", suites=NOT_MINI),
    Remedy("cnn_decay", CNN, "weight decay", training=DECAY, control="cnn", suites=NOT_MINI),
    Remedy("cp_free", {"kind": "cp", "rank": 2, "maps": "free"}, "CP", width=None, control="cp_shared",
           suites=NOT_MINI),
    Remedy("composed", {"kind": "composed"}, "recombine", width=None, counted=True, training={"kind": "composed"},
           trials=COMPOSED_TRIALS, trial=FEWER_CELLS, control="cnn", suites=NOT_MINI),
    Remedy("rendered", {"kind": "rendered"}, "Liang et al. 2025", width=None, training=LOW_RANK, control="cnn",
           suites=NOT_MINI),
])  # fmt: skip
