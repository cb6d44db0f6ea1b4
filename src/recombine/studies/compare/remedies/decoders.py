"""Decoders whose architecture is the remedy."""

from recombine.studies.compare.remedy import REMEDIES, Remedy

for order, remedy in enumerate(
    (
        Remedy("additive", {"kind": "additive"}, "Lachapelle et al. 2023", slotted=True),
        Remedy("masked_slots", {"kind": "masked_slots"}, "Brady et al. 2023", slotted=True),
        Remedy("occlusion_sum", {"kind": "occlusion_sum"}, "Wiedemer et al. 2023", slotted=True),
        Remedy("cp_shared", {"kind": "cp", "rank": 2, "maps": "shared"}, "CP decomposition"),
        Remedy("film", {"kind": "film"}, "Perez et al. 2018"),
        Remedy("coordconv", {"kind": "coordconv"}, "Liu et al. 2018"),
        Remedy("spatial_broadcast", {"kind": "spatial_broadcast"}, "Watters et al. 2019"),
        Remedy(
            "cross_attention", {"kind": "cross_attention", "heads": 2}, "Brady et al. 2024", multiple=2, slotted=True
        ),
    ),
    10,
):
    REMEDIES.add(remedy.name, Remedy(**{**vars(remedy), "order": order}))
