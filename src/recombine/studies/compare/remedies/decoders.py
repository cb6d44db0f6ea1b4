"""Decoders whose architecture is the remedy."""

from recombine.studies.compare.remedy import NOT_MINI, Remedy, add_in_order

add_in_order(10, [
    Remedy("additive", {"kind": "additive"}, "Lachapelle et al. 2023", slotted=True),
    Remedy("masked_slots", {"kind": "masked_slots"}, "Brady et al. 2023", slotted=True, suites=NOT_MINI),
    Remedy("occlusion_sum", {"kind": "occlusion_sum"}, "Wiedemer et al. 2023", slotted=True, suites=NOT_MINI),
    Remedy("cp_shared", {"kind": "cp", "rank": 2, "maps": "shared"}, "CP decomposition", suites=NOT_MINI),
    Remedy("film", {"kind": "film"}, "Perez et al. 2018", suites=NOT_MINI),
    Remedy("coordconv", {"kind": "coordconv"}, "Liu et al. 2018", suites=NOT_MINI),
    Remedy("spatial_broadcast", {"kind": "spatial_broadcast"}, "Watters et al. 2019", suites=NOT_MINI),
    Remedy("cross_attention", {"kind": "cross_attention", "heads": 2}, "Brady et al. 2024", multiple=2, slotted=True,
           suites=NOT_MINI),
])  # fmt: skip
