"""Second edition of the statistics that decide the claims, written down before any of the runs that it decides on.

Thresholds follow these rules, in this order. For a number that the paper prints or plots, the threshold is half of it.
An ordering has a threshold of 0. For a closed-form reference (a perfect superposition, an exact conjunction), the
threshold is half way. Where none of these exists, the threshold is the smallest difference that a reader would see in
the paper's figure. docs/statistics.md explains every part.
"""

from __future__ import annotations

from recombine.studies.framework.claims import Claim, ClaimPart, Test

HALF_WAY = "half way between right outputs (0) and a perfect superposition (1)"
HALF_CONJUNCTION = "half of the 0.53 of an exact sum of two stripes (cosine 1 with the sum, 0.47 with the bump)"
MAJORITY = "more than half of the energy"
MARGIN = "clearly more than chance, than right outputs and than trained outputs; the margin that `diagnose` asks for"
ORDER = "an ordering"
HALF_GAIN = "half of the 2.28 decades between no penalty and both in the paper's released weights"
VISIBLE = "the least difference that is seen on the paper's colour scales, a factor of √2"

CLAIMS: dict[str, Claim] = {
    claim.id: claim
    for claim in (
        Claim(
            "C1",
            "every encoding fails on unseen pairs while the trained ones are learnt",
            (
                ClaimPart(
                    "learnt",
                    "log₁₀ of the relative ID error, worst of four encodings × two hold-outs",
                    "below",
                    -1.3,
                    "the criterion for *learnt*: 95 % of the variance of the trained images",
                ),
                ClaimPart(
                    "fails",
                    "OOD localization, best of four encodings × two hold-outs",
                    "below",
                    0.9,
                    "the paper's level for a network that generalizes",
                ),
                ClaimPart(
                    "error",
                    "log₁₀ of OOD over ID error, least of four encodings × two hold-outs",
                    "above",
                    1.0,
                    "an order of magnitude",
                ),
            ),
        ),
        Claim(
            "C2",
            "outputs for unseen pairs are superpositions of all or some of the memorized ones",
            (
                *(
                    ClaimPart(
                        f"{code}_{kind}",
                        statistic.format(code),
                        "above",
                        threshold,
                        why,
                        decides=code in ("bump", "ramp"),
                        learnt=True,
                    )
                    for code in ("bump", "ramp", "onehot", "positional")
                    for kind, statistic, threshold, why in (
                        (
                            "free",
                            "{} code: median over OOD cells of the share of the output's energy that the best sum "
                            "of the trained outputs sharing x or y explains, weights ≥ 0",
                            0.5,
                            MAJORITY,
                        ),
                        (
                            "controls",
                            "{} code: that median minus the greatest of its controls: the truth, unrelated trained "
                            "outputs, trained outputs with a hole of the same size",
                            0.25,
                            MARGIN,
                        ),
                    )
                    if kind == "free" or code in ("bump", "ramp")
                ),
                *(
                    ClaimPart(
                        f"{code}_equal",
                        f"{code} code: the literal form, all trained outputs sharing x or y with equal weights: median "
                        "share of energy explained (mean ID output taken off)",
                        "above",
                        0.5,
                        MAJORITY,
                        decides=False,
                        learnt=True,
                    )
                    for code in ("bump", "ramp")
                ),
            ),
        ),
        Claim(
            "C3",
            "OOD × ID similarity agrees with K_bin, more so for bump than for ramp codes",
            (
                ClaimPart(
                    "agrees",
                    "bump code: agreement A = (r − r of right outputs) / (r of perfect superpositions − r of right "
                    "outputs), r: Pearson's correlation with K_bin of the pixel overlap over OOD × ID pairs",
                    "above",
                    0.5,
                    HALF_WAY,
                    learnt=True,
                ),
                ClaimPart(
                    "more",
                    "A of the bump code minus A of the ramp code",
                    "above",
                    0.25,
                    "half of what is asked of the bump code alone",
                    learnt=True,
                ),
                ClaimPart(
                    "cosine",
                    "bump code: A with the cosine similarity in place of the pixel overlap",
                    "above",
                    0.5,
                    HALF_WAY,
                    decides=False,
                    learnt=True,
                ),
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
                    -0.5,
                    "two of three pairs of layers in falling order; a correlation just below 0 is no fall",
                    learnt=True,
                ),
                ClaimPart(
                    "factorization",
                    "the same with the factorization score F (mean over the grid)",
                    "below",
                    -0.5,
                    "as for the probes",
                    learnt=True,
                ),
                ClaimPart(
                    "probe_loss",
                    "R² of the code minus R² of the last hidden layer, median over both codes and all depths",
                    "above",
                    0.1,
                    "a tenth of the variance of a coordinate, the least fall that Fig. 2 would show",
                    learnt=True,
                ),
                ClaimPart(
                    "loss_bump",
                    "bump code: F of the code minus the lowest F of a hidden layer, mean over depths, F as in the "
                    "original experiments (finite differences, ratio of means)",
                    "above",
                    0.02,
                    "half of the 0.04 that the axis of the paper's figure spans",
                    learnt=True,
                ),
                ClaimPart(
                    "loss_ramp",
                    "the same for the ramp code",
                    "above",
                    0.1,
                    "half of the 0.2 and more that the axis of the paper's figure spans",
                    learnt=True,
                ),
            ),
        ),
        Claim(
            "C5",
            "shallow networks with the ramp code lose factorization fastest",
            (
                ClaimPart(
                    "than_bump",
                    "least depth: fall of F from the code to its lowest hidden layer, ramp minus bump code, F as in "
                    "the original experiments",
                    "above",
                    0.1,
                    "half of the 0.2 between the two panels of the paper's figure",
                    learnt=True,
                ),
                ClaimPart(
                    "than_deep",
                    "ramp code: F of the greatest depth minus F of the least depth, both at the last hidden layer of "
                    "the least depth",
                    "above",
                    0.05,
                    "a sharper drop shows at the same layer; a fifth of the figure's axis",
                    learnt=True,
                ),
            ),
        ),
        Claim(
            "C6",
            "the volume element is distorted in the hold-out",
            (
                *(
                    ClaimPart(
                        code,
                        f"{code} code, standard depth: median |log₁₀ dv of the output − log₁₀ dv of the true images| "
                        "over OOD cells minus that over ID cells",
                        "above",
                        0.15,
                        VISIBLE,
                        learnt=True,
                    )
                    for code in ("bump", "ramp")
                ),
                *(
                    ClaimPart(
                        f"{code}_differences",
                        f"{code} code: the same with dv by finite differences, as in the original experiments",
                        "above",
                        0.15,
                        "as above; added after the runs, so that it decides nothing",
                        decides=False,
                        learnt=True,
                    )
                    for code in ("bump", "ramp")
                ),
            ),
        ),
        Claim(
            "C7",
            "ablation of the penalties: none has the best ID and the worst OOD error, entropy alone helps little, "
            "variance alone helps much at some ID cost, both have the best OOD error",
            (
                *(
                    ClaimPart(
                        f"{variant}_cost",
                        f"log₁₀ ID error of {variant} minus that of none",
                        "above",
                        0.0,
                        ORDER,
                        Test.MEDIAN,
                    )
                    for variant in ("entropy", "variance", "both")
                ),
                ClaimPart(
                    "entropy_helps",
                    "decades of OOD error that entropy alone gains over none",
                    "above",
                    0.0,
                    ORDER,
                    Test.MEDIAN,
                ),
                ClaimPart(
                    "entropy_little",
                    "the same number",
                    "below",
                    0.5,
                    "marginal: less than a quarter of those 2.28 decades",
                    Test.MEDIAN,
                ),
                ClaimPart(
                    "variance_much",
                    "decades of OOD error that variance alone gains over none",
                    "above",
                    1.1,
                    HALF_GAIN,
                    Test.MEDIAN,
                ),
                ClaimPart(
                    "both_much",
                    "decades of OOD error that both gain over none",
                    "above",
                    1.1,
                    HALF_GAIN,
                    Test.MEDIAN,
                ),
                ClaimPart(
                    "both_best",
                    "decades of OOD error that both gain over variance alone",
                    "above",
                    0.0,
                    ORDER,
                    Test.MEDIAN,
                ),
            ),
        ),
        Claim(
            "C8",
            "with the penalties the embeddings band along their axis and dv is smoother",
            (
                ClaimPart(
                    "banded",
                    "both penalties: median over all factor values of the banding of their maps (1: a band along an "
                    "image axis)",
                    "above",
                    0.9,
                    "the bands of Fig. 3 have no visible breaks",
                    Test.MEDIAN,
                ),
                ClaimPart(
                    "more_banded",
                    "that median, both penalties minus none",
                    "above",
                    0.1,
                    "the least difference that maps side by side would show",
                    Test.MEDIAN,
                ),
                ClaimPart(
                    "smoother",
                    "log₁₀ of the roughness of the output's log₁₀ dv in the hold-out (median absolute difference of "
                    "neighbouring cells), none over both penalties",
                    "above",
                    0.18,
                    "“significantly smoother”: at least 1.5 times",
                    Test.MEDIAN,
                ),
            ),
        ),
        Claim(
            "C9",
            "stripes alone give the additive conjunction of two stripes zero-shot",
            (
                ClaimPart(
                    "additive",
                    "no bumps, longest training: median over OOD cells of the output's cosine with the sum of the "
                    "stripes minus that with the bump",
                    "above",
                    0.26,
                    HALF_CONJUNCTION,
                    Test.MEDIAN,
                    learnt=True,
                ),
                ClaimPart(
                    "rises",
                    "no bumps: Spearman's rank correlation of that number with the length of training",
                    "above",
                    0.5,
                    "the conjunction is where training leads, not a stage that it passes",
                    Test.MEDIAN,
                    learnt=True,
                ),
                ClaimPart(
                    "early",
                    "the first number after the shortest training",
                    "above",
                    0.0,
                    "nearer to the sum than to the bump",
                    Test.MEDIAN,
                    decides=False,
                    learnt=True,
                ),
                ClaimPart(
                    "place",
                    "no bumps, longest training: OOD localization",
                    "above",
                    0.9,
                    "the paper's level; the exact sum of two stripes peaks where they cross and scores 1",
                    Test.MEDIAN,
                    learnt=True,
                ),
            ),
        ),
        Claim(
            "C10",
            "a few bumps turn the conjunction into bumps",
            (
                ClaimPart(
                    "bump",
                    "100 bumps, longest training: median over OOD cells of the output's cosine with the bump",
                    "above",
                    0.9,
                    "81 % of the energy",
                    Test.MEDIAN,
                    learnt=True,
                ),
                ClaimPart(
                    "gain",
                    "that cosine, 100 bumps minus none",
                    "above",
                    0.26,
                    HALF_CONJUNCTION,
                    Test.MEDIAN,
                    learnt=True,
                ),
                ClaimPart(
                    "rises",
                    "longest training: Spearman's rank correlation of that cosine with the number of bumps",
                    "above",
                    0.5,
                    "the more bumps the more so",
                    Test.MEDIAN,
                    learnt=True,
                ),
                ClaimPart(
                    "early_gain",
                    "the gain after the shortest training",
                    "above",
                    0.0,
                    "whatever the length of training",
                    Test.MEDIAN,
                    decides=False,
                    learnt=True,
                ),
            ),
        ),
        Claim(
            "C11",
            "the data needed grow as N³ for bumps and as N with stripes",
            (
                ClaimPart(
                    "bumps",
                    "exponent of the fewest bumps with OOD localization ≥ 0.9 over N, bumps only: mixed model over all "
                    "N and seeds, thresholds as intervals, those beyond the budget as censored",
                    "within",
                    (2.5, 3.5),
                    "3 is the nearest whole number",
                    Test.FIT,
                ),
                ClaimPart(
                    "stripes",
                    "the same for 2N stripes + the fewest bumps",
                    "within",
                    (0.5, 1.5),
                    "1 is the nearest whole number",
                    Test.FIT,
                ),
            ),
        ),
        Claim(
            "C12",
            "after stripe training early units are stripe-like and later ones bump-like, and dv stays smooth",
            (
                ClaimPart(
                    "stripes_early",
                    "stripes + 100 bumps: stripe index (median over units, each counted by its variance) of the first "
                    "layer minus that of the last hidden layer",
                    "above",
                    0.2,
                    "a fifth of the index's range, the least difference that tuning curves side by side would show",
                    learnt=True,
                ),
                ClaimPart(
                    "bumps_late",
                    "the same runs: bump index of the last hidden layer minus that of the first layer",
                    "above",
                    0.2,
                    "as above",
                    learnt=True,
                ),
                ClaimPart(
                    "smooth",
                    "log₁₀ of the roughness of the output's log₁₀ dv in the hold-out (median absolute difference of "
                    "neighbouring cells): trained on all ID bumps over stripes + 100 bumps",
                    "above",
                    0.1,
                    "“relatively smooth, in contrast to”: at least 1.25 times smoother",
                    learnt=True,
                ),
            ),
        ),
        Claim(
            "C13",
            "rotation: outputs for unseen angles are close to the linear blend of the images at the gap's edges",
            (
                ClaimPart(
                    "nearer",
                    "log₁₀ of the error against the true image over the error against the blend, medians over OOD "
                    "angles",
                    "above",
                    0.3,
                    "at most half of the error",
                ),
                ClaimPart(
                    "alike",
                    "median over OOD angles of the pixel correlation of output and blend",
                    "above",
                    0.9,
                    "“strongly resembles”: 81 % of the variance",
                ),
            ),
        ),
        Claim(
            "C14",
            "MLPs warp the hold-out the opposite way to CNNs, and lose factorization more",
            (
                *(
                    ClaimPart(
                        f"opposite_{code}",
                        f"{code} code: warp w = median over OOD cells minus median over ID cells of log₁₀ dv of the "
                        "output relative to that of the true images, median over the depths that both have; the lesser "
                        "of |w| of CNN and MLP, negative if both have one sign",
                        "above",
                        0.05,
                        "a warp of less than an eighth of the volume is not seen in a figure",
                        learnt=True,
                    )
                    for code in ("bump", "ramp")
                ),
                ClaimPart(
                    "factorization",
                    "F of the code minus F of the last hidden layer, mean over both codes and the depths that both "
                    "have: MLP minus CNN",
                    "above",
                    0.02,
                    "“more drastic”: half of what a CNN with the bump code loses in the paper's figure, on top",
                    learnt=True,
                ),
                *(
                    ClaimPart(
                        f"published_{code}",
                        f"opposite_{code} with MLPs as published (20 epochs), learnt or not",
                        "above",
                        0.05,
                        "as above",
                        decides=False,
                    )
                    for code in ("bump", "ramp")
                ),
            ),
        ),
    )
}
