"""Decoders whose architecture is the remedy."""

from recombine.studies.compare.remedy import FULL, SMALL, Remedy, add_in_order

add_in_order(10, [
    Remedy("additive", {"kind": "additive"}, "Lachapelle et al. 2023", slotted=True),
    Remedy("masked_slots", {"kind": "masked_slots"}, "Brady et al. 2023", slotted=True, suites=SMALL),
    Remedy("occlusion_sum", {"kind": "occlusion_sum"}, "Wiedemer et al. 2023", slotted=True, suites=SMALL),
    Remedy("cp_shared", {"kind": "cp", "rank": 2, "maps": "shared"}, "CP decomposition", suites=SMALL),
    Remedy("film", {"kind": "film"}, "Perez et al. 2018", suites=SMALL),
    Remedy("coordconv", {"kind": "coordconv"}, "Liu et al. 2018", suites=SMALL),
    Remedy("spatial_broadcast", {"kind": "spatial_broadcast"}, "Watters et al. 2019", suites=FULL),
    Remedy("cross_attention", {"kind": "cross_attention", "heads": 2}, "Brady et al. 2024", multiple=2, slotted=True,
           suites=SMALL),
])  # fmt: skip
