"""First edition of the statistics that decide the claims, written down before the first runs and unchanged since.

The second edition (`edition_2`) decides; this one is evaluated beside it. A part is *reproduced* if the whole 95 %
Student interval of its mean over seeds lies beyond the threshold, *not reproduced* if it lies wholly on the other side.
There is no correction for several parts, and networks that have not learnt count like the others.
"""

from __future__ import annotations

from recombine.studies.framework.claims import Claim, ClaimPart

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        Claim(
            "C1",
            "every encoding fails on unseen pairs while the trained ones are learnt",
            (
                ClaimPart(
                    "learnt",
                    "ID localization of the worst of four encodings × two hold-outs",
                    "above",
                    0.95,
                ),
                ClaimPart(
                    "fails",
                    "OOD localization of the best of four encodings × two hold-outs (0.9 counts as generalizing)",
                    "below",
                    0.9,
                ),
                ClaimPart(
                    "error",
                    "log₁₀ of OOD over ID error, least of four encodings × two hold-outs",
                    "above",
                    1.0,
                ),
            ),
        ),
        Claim(
            "C2",
            "outputs for unseen pairs are superpositions of memorized ones",
            (
                ClaimPart(
                    "bump",
                    "bump code: median over OOD cells of the share of the output's energy that the best-scaled "
                    "superposition of ID outputs explains (mean ID output taken off)",
                    "above",
                    0.5,
                ),
                ClaimPart("ramp", "the same for the ramp code", "above", 0.5),
                ClaimPart(
                    "bump_nearer",
                    "bump code: median cosine of the output with the superposition minus that with the truth "
                    "(mean ID output taken off)",
                    "above",
                    0.0,
                ),
                ClaimPart("ramp_nearer", "the same for the ramp code", "above", 0.0),
            ),
        ),
        Claim(
            "C3",
            "OOD × ID similarity agrees with K_bin, more so for bump than for ramp codes",
            (
                ClaimPart(
                    "agrees",
                    "bump code: Pearson's r of the cosine similarity with K_bin over OOD × ID pairs, minus the 97.5 % "
                    "quantile of r under random renaming of factor values",
                    "above",
                    0.0,
                ),
                ClaimPart("more", "r of the bump code minus r of the ramp code", "above", 0.0),
            ),
        ),
        Claim(
            "C4",
            "linear probes and factorization fall with layer depth",
            (
                ClaimPart(
                    "probe",
                    "Spearman's rank correlation of layer number (code to last hidden layer) and R² of probes fitted "
                    "on ID and scored on OOD cells, mean over x and y, both codes and all depths",
                    "below",
                    0.0,
                ),
                ClaimPart(
                    "factorization",
                    "the same with the factorization score F (mean over the grid)",
                    "below",
                    0.0,
                ),
            ),
        ),
        Claim(
            "C5",
            "shallow networks with the ramp code lose factorization fastest",
            (
                ClaimPart(
                    "than_bump",
                    "loss of F per layer, code to last hidden layer, at the least depth: ramp minus bump code",
                    "above",
                    0.0,
                ),
                ClaimPart(
                    "than_deep",
                    "loss of F per layer with the ramp code: least minus greatest depth",
                    "above",
                    0.0,
                ),
            ),
        ),
        Claim(
            "C6",
            "the volume element is distorted in the hold-out",
            (
                ClaimPart(
                    "bump",
                    "bump code, standard depth: mean |log₁₀ dv of the output − log₁₀ dv of the true images| over OOD "
                    "cells minus that over ID cells",
                    "above",
                    0.1,
                ),
                ClaimPart("ramp", "the same for the ramp code", "above", 0.1),
            ),
        ),
        Claim(
            "C7",
            "ablation of the penalties: none has the best ID and the worst OOD error, entropy alone helps little, "
            "variance alone helps much at some ID cost, both have the best OOD error",
            (
                ClaimPart(
                    "none_best_id",
                    "log₁₀ ID error of the best penalized variant minus that of none",
                    "above",
                    0.0,
                ),
                ClaimPart(
                    "none_worst_ood",
                    "log₁₀ OOD error of none minus that of the worst penalized variant",
                    "above",
                    0.0,
                ),
                ClaimPart(
                    "entropy_little",
                    "decades of OOD error that entropy alone gains over none",
                    "below",
                    0.5,
                ),
                ClaimPart(
                    "variance_much",
                    "decades of OOD error that variance alone gains over none",
                    "above",
                    1.0,
                ),
                ClaimPart(
                    "variance_cost",
                    "log₁₀ ID error of variance alone minus that of none",
                    "above",
                    0.0,
                ),
                ClaimPart(
                    "both_best",
                    "log₁₀ OOD error of the best other variant minus that of both",
                    "above",
                    0.0,
                ),
            ),
        ),
        Claim(
            "C8",
            "with the penalties the embeddings band along their axis and dv is smoother",
            (
                ClaimPart(
                    "banding",
                    "mean banding of all maps (1 = a band along an image axis), both penalties minus none",
                    "above",
                    0.1,
                ),
                ClaimPart(
                    "smoother",
                    "roughness of the output's log₁₀ dv in the hold-out (mean absolute difference of neighbouring "
                    "cells), none minus both penalties",
                    "above",
                    0.0,
                ),
            ),
        ),
        Claim(
            "C9",
            "stripes alone give the additive conjunction of two stripes zero-shot",
            (
                ClaimPart(
                    "additive",
                    "no bumps: mean over OOD cells of the output's cosine with the sum of the stripes minus that with "
                    "the bump",
                    "above",
                    0.0,
                ),
                ClaimPart("place", "no bumps: OOD localization", "above", 0.9),
            ),
        ),
        Claim(
            "C10",
            "a few bumps turn the conjunction into bumps",
            (
                ClaimPart(
                    "gain",
                    "mean over OOD cells of the output's cosine with the bump: 100 bumps minus none",
                    "above",
                    0.0,
                ),
                ClaimPart(
                    "bump",
                    "100 bumps: mean over OOD cells of the output's cosine with the bump",
                    "above",
                    0.9,
                ),
            ),
        ),
        Claim(
            "C11",
            "the data needed grow as N³ for bumps and as N with stripes",
            (
                ClaimPart(
                    "bumps",
                    "slope of log₁₀ (fewest bumps with OOD localization ≥ 0.9) over log₁₀ N, bumps only",
                    "within",
                    (2.5, 3.5),
                ),
                ClaimPart(
                    "stripes",
                    "slope of log₁₀ (2N stripes + fewest bumps with OOD localization ≥ 0.9) over log₁₀ N",
                    "within",
                    (0.5, 1.5),
                ),
            ),
        ),
        Claim(
            "C12",
            "after stripe training early units are stripe-like and later ones bump-like, and dv stays smooth",
            (
                ClaimPart(
                    "stripes_early",
                    "stripes + 100 bumps: stripe index (mean weighted by variance) of the first layer minus that of "
                    "the last hidden layer",
                    "above",
                    0.0,
                ),
                ClaimPart(
                    "bumps_late",
                    "the same runs: bump index of the last hidden layer minus that of the first layer",
                    "above",
                    0.0,
                ),
                ClaimPart(
                    "smooth",
                    "roughness of the output's log₁₀ dv in the hold-out (mean absolute difference of neighbouring "
                    "cells): trained on all ID bumps minus stripes + 100 bumps",
                    "above",
                    0.0,
                ),
            ),
        ),
        Claim(
            "C13",
            "rotation: outputs for unseen angles are close to the linear blend of the images at the gap's edges",
            (
                ClaimPart(
                    "nearer",
                    "log₁₀ of the error against the true image over the error against the blend, means over OOD angles",
                    "above",
                    0.0,
                ),
                ClaimPart(
                    "alike",
                    "mean over OOD angles of the pixel correlation of output and blend",
                    "above",
                    0.9,
                ),
            ),
        ),
        Claim(
            "C14",
            "MLPs warp the hold-out the opposite way to CNNs, and lose factorization more",
            (
                ClaimPart(
                    "opposite_bump",
                    "bump code, standard depth: warp w = mean over OOD cells minus mean over ID cells of log₁₀ dv of "
                    "the output relative to that of the true images; the lesser of |w| of CNN and MLP, negative if "
                    "both have one sign",
                    "above",
                    0.0,
                ),
                ClaimPart("opposite_ramp", "the same for the ramp code", "above", 0.0),
                ClaimPart(
                    "factorization",
                    "loss of F from the code to the last hidden layer, mean over both codes and the depths that both "
                    "have: MLP minus CNN",
                    "above",
                    0.0,
                ),
            ),
        ),
    )
}
