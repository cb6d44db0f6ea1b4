"""Numbers of every study from hand-made rows, in both editions, and the maths behind them against closed forms."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import recombine as rc
from recombine.diagnostics.findings import PartResult
from recombine.studies.framework import edition_2
from recombine.studies.framework.edition_1 import CLAIMS
from recombine.studies.framework.layers import loss_of_factorization, trend
from recombine.studies.framework.verdicts import Evidence, decide, decide_by_intervals
from recombine.studies.framework.width_check import width_check
from recombine.studies.paper import r01_landscapes as landscapes
from recombine.studies.paper import r02_superpositions as superpositions
from recombine.studies.paper import r03_similarities as similarities
from recombine.studies.paper import r04_layers as layers
from recombine.studies.paper import r06_volume as volume
from recombine.studies.paper import r07_rendering as rendering
from recombine.studies.paper import r08_few_shot as few_shot
from recombine.studies.paper import r09_scaling as scaling
from recombine.studies.paper import r10_after_stripes as after_stripes
from recombine.studies.paper import r13_depths as depths
from recombine.studies.side import s05_never_lit as never_lit
from recombine.studies.side import s06_stripes_and_penalties as stripes_and_penalties

SEEDS = (0, 1, 2)


def outcome(claim: str, effects) -> str:
    found = {name: Evidence(values) for name, values in effects.items()}
    return decide_by_intervals(CLAIMS[claim], found, SEEDS).outcome


def run_layers(scores, **about):
    """Rows of one run: the code, hidden layers and the image."""
    kinds = ["in", *["hidden"] * (len(scores) - 2), "out"]
    return [{**about, "layer": i, "kind": k, "factorization": f, "probe_id_to_ood": f} for i, (k, f) in
            enumerate(zip(kinds, scores))]  # fmt: skip


def test_landscapes_look_at_the_worst_case():
    rows = [
        {"holdout": h, "code": c, "seed": s, "id_localization": 1.0, "ood_localization": 0.3, "id_mse": 1e-5,
         "ood_mse": 1e-3 * (1 + s / 10)}
        for h in ("centre", "corner") for c in ("bump", "ramp", "onehot", "positional") for s in SEEDS
    ]  # fmt: skip
    part = PartResult("landscapes", {"scores": rows})
    assert outcome("C1", landscapes.first_effects(part)) == "reproduced"
    for row in rows:
        if row["code"] == "positional":
            row["ood_localization"] = 0.97
    assert outcome("C1", landscapes.first_effects(part)) == "not reproduced"
    del rows[0]  # a seed that lacks a run has no number
    assert set(landscapes.first_effects(part)["C1.learnt"]) == {1, 2}


def test_superpositions_are_judged_on_the_centred_output_side():
    rows = [
        {"code": c, "seed": s, "side": side, "centred": centred, "energy": 0.8 + s / 100 if centred else 0.1,
         "nearer": 0.2 + s / 100 if centred else -1.0}
        for c in ("bump", "ramp") for s in SEEDS for side in ("output",) for centred in (False, True)
    ]  # fmt: skip
    assert outcome("C2", superpositions.first_effects(PartResult("superpositions", {"medians": rows}))) == "reproduced"


@pytest.mark.parametrize(("ramp", "expected"), [(0.2, "reproduced"), (0.6, "not reproduced")])
def test_agreement_must_be_higher_for_the_bump_code(ramp, expected):
    rows = [
        {"code": c, "seed": s, "similarity": kind, "correlation": r + s / 1000, "null_high": 0.1}
        for c, r in (("bump", 0.5), ("ramp", ramp))
        for s in SEEDS
        for kind in ("cosine", "l2")
    ]
    assert outcome("C3", similarities.first_effects(PartResult("similarities", {"agreement": rows}))) == expected


def test_layers():
    falling, steep = [1.0, 0.9, 0.8, 0.7, 0.9], [1.0, 0.7, 0.4, 0.9]
    table, warps = [], []
    for seed in SEEDS:
        for code in ("bump", "ramp"):
            shallow = steep if code == "ramp" else [1.0, 0.95, 0.9, 0.9]
            table += run_layers(shallow, code=code, width=8, depth=2, seed=seed)
            table += run_layers(falling, code=code, width=8, depth=3, seed=seed)
            warps.append({"code": code, "width": 8, "seed": seed, "distortion_ood": 0.5, "distortion_id": 0.1})
    table += run_layers([1.0, 1.0, 1.0, 1.0], code="ramp", width=64, depth=2, seed=0)  # decides nothing
    part, maps = PartResult("layers", {"layers": table}), PartResult("volume", {"warp": warps})
    for result in (part, maps):
        result.facts["width"] = 8
    found = {**layers.first_effects(part), **volume.first_effects(maps)}
    assert found["C4.factorization"] == dict.fromkeys(SEEDS, -1.0)
    assert found["C5.than_bump"][0] == pytest.approx(0.3 - 0.05)
    assert found["C5.than_deep"][0] == pytest.approx(0.3 - 0.1)
    assert [outcome(claim, found) for claim in ("C4", "C5", "C6")] == ["reproduced"] * 3


def test_depths_tell_opposite_warps_from_equal_ones():
    def part(mlp_warp: float) -> PartResult:
        rows, warps, configs = [], [], {}
        kinds = (("cnn", [1.0, 0.9, 1.0], -0.4), ("mlp", [1.0, 0.6, 1.0], mlp_warp))
        for decoder, scores, w in (*kinds, ("published", *kinds[1][1:])):
            for code in ("bump", "ramp"):
                configs[f"{decoder}/{code}/4"] = {}
                for seed in SEEDS:
                    about = {"decoder": decoder, "code": code, "depth": 4, "seed": seed}
                    rows += run_layers(scores, **about)
                    told = {"learnt": decoder == "mlp" or code == "bump" or decoder == "cnn", "run": "ab", "steps": 9}
                    warps.append({**about, **told, "trained_error": 0.2, "warp": w + seed / 1000,
                                  "warp_median": w + seed / 1000})  # fmt: skip
        return PartResult("depths", {"layers": rows, "warp": warps}, facts={"depth": 4, "configs": configs})

    opposite = depths.first_effects(part(0.3))
    assert opposite["C14.opposite_bump"][0] == pytest.approx(0.3)
    assert opposite["C14.factorization"][1] == pytest.approx(0.3)
    assert outcome("C14", opposite) == "reproduced"
    same = depths.first_effects(part(-0.2))
    assert same["C14.opposite_ramp"][0] == pytest.approx(-0.2)
    assert outcome("C14", same) == "not reproduced"


@pytest.mark.parametrize(("both", "expected"), [(5e-5, "reproduced"), (5e-4, "not reproduced")])
def test_the_ablation(both, expected):
    errors = {"none": (1e-6, 3e-2), "entropy": (2e-6, 2e-2), "variance": (4e-5, 1e-4), "both": (4e-5, both)}
    rows = [
        {"variant": v, "seed": s, "id_mse": i * (1 + s / 50), "ood_mse": o * (1 + s / 50),
         "banding": 0.6 if v == "none" else 0.99, "roughness_ood": 0.5 if v == "none" else 0.1}
        for v, (i, o) in errors.items() for s in SEEDS
    ]  # fmt: skip
    found = rendering.first_effects(PartResult("rendering", {"ablation": rows}))
    assert outcome("C7", found) == expected
    assert outcome("C8", found) == "reproduced"


def test_few_bumps():
    rows = [
        {"bumps": m, "seed": s, "additive": a, "composed": c, "ood_localization": 1.0, "steps": 9, "width": 8}
        for m, a, c in ((0, 0.84, 0.77), (100, 0.51, 0.97)) for s in SEEDS
    ]  # fmt: skip
    part = PartResult("few_shot", {"runs": rows}, facts={"many": 100, "lengths": [9], "width": 8})
    assert outcome("C9", few_shot.first_effects(part)) == "reproduced"
    assert outcome("C10", few_shot.first_effects(part)) == "reproduced"
    for row in rows:
        row["additive"], row["composed"] = 0.6, 0.9
    assert outcome("C9", few_shot.first_effects(part)) == "not reproduced"
    assert outcome("C10", few_shot.first_effects(part)) == "inconclusive"  # no gain, and exactly at the threshold


def test_the_slope_of_each_seed():
    rows = [
        {"kind": kind, "side": n, "seed": s, "reached": True, "examples": float(a * n**power)}
        for kind, a, power in (("bumps", 0.01, 3), ("stripes + bumps", 2, 1)) for n in (16, 24, 32) for s in SEEDS
    ]  # fmt: skip
    part = PartResult("scaling", {"thresholds": rows})
    found = scaling.first_effects(part)
    assert found["C11.bumps"][0] == pytest.approx(3)
    assert found["C11.stripes"][2] == pytest.approx(1)
    assert outcome("C11", found) == "reproduced"
    rows[0]["reached"] = False  # not reached at some N: this seed has no slope
    assert 0 not in scaling.first_effects(part)["C11.bumps"]
    assert outcome("C11", scaling.first_effects(part)) == "inconclusive"


def test_after_stripes():
    tuning = [
        {"data": "stripes + bumps", "seed": s, "layer": n, "weighted_stripe": stripe, "weighted_bump": bump}
        for s in SEEDS for n, stripe, bump in ((1, 0.8, 0.1), (2, 0.5, 0.3), (3, 0.2, 0.6))
    ]  # fmt: skip
    warps = [{"data": d, "seed": s, "roughness_ood": r} for d, r in (("bumps", 0.4), ("stripes + bumps", 0.1))
             for s in SEEDS]  # fmt: skip
    found = after_stripes.first_effects(PartResult("after_stripes", {"tuning": tuning, "warp": warps}))
    assert outcome("C12", found) == "reproduced"
    assert found["C12.bumps_late"][1] == pytest.approx(0.5)


def test_the_true_images_have_an_even_volume_inside():
    from recombine.diagnostics.numerics.geometry import metric_tensor_exact

    space = rc.FactorSpace(x=20, y=20)
    scene = rc.scenes.Bump(space)
    volume = metric_tensor_exact(lambda values: scene(values), space)["out"].log_volume.reshape(20, 20)
    assert np.ptp(volume[6:14, 6:14]) < 1e-4
    assert volume[0, 0] < volume[10, 10]
    assert torch.is_tensor(scene(torch.zeros(1, 2)))


def test_trends():
    rows = run_layers([1.0, 0.9, 0.8, 0.7, 5.0])
    assert trend(rows, "factorization") == pytest.approx(-1)
    assert loss_of_factorization(rows) == pytest.approx(0.3)
    assert loss_of_factorization(rows, per_layer=True) == pytest.approx(0.1)
    assert trend(run_layers([1.0, 1.0, 1.0, 0.5]), "factorization") == 0
    assert math.isnan(trend(run_layers([1.0, math.nan, 1.0, 0.5]), "factorization"))


def second(claim: str, effects, seeds=range(10)) -> str:
    return decide(edition_2.CLAIMS[claim], effects, list(seeds)).outcome


def learnt(seed: int, *, whether: bool = True) -> dict:
    return {"seed": seed, "run": "ab", "learnt": whether, "trained_error": 0.01 if whether else 0.3, "steps": 9}


@pytest.mark.parametrize(("ramp", "expected"), [(0.9, "reproduced"), (0.2, "not reproduced")])
def test_superpositions_per_code_with_free_weights(ramp, expected):
    free = [
        {**learnt(s), "code": c, "share": share + s / 1000, "truth": 0.01, "unrelated": 0.05, "trained": 0.02}
        for c, share in (("bump", 0.9), ("ramp", ramp), ("onehot", 0.9), ("positional", 0.9)) for s in range(10)
    ]  # fmt: skip
    literal = [{"code": c, "seed": s, "side": "output", "centred": True, "energy": 0.2 + s / 1000, "nearer": 0.0}
               for c in ("bump", "ramp") for s in range(10)]  # fmt: skip
    found = superpositions.effects(PartResult("superpositions", {"medians": literal, "free_weights": free}))
    assert second("C2", found) == expected
    parts = {part.part.name: part.outcome for part in decide(edition_2.CLAIMS["C2"], found, range(10)).parts}
    assert parts["bump_free"] == parts["bump_controls"] == "reproduced"
    assert parts["bump_equal"] == "not reproduced"  # the literal form, which decides nothing


def test_agreement_is_measured_between_right_outputs_and_perfect_superpositions():
    rows = [
        {**learnt(s), "code": c, "similarity": kind, "correlation": r + s / 10000}
        for c, r in (("bump", 0.4), ("ramp", 0.15)) for kind in ("overlap", "cosine") for s in range(10)
    ]  # fmt: skip
    facts = {"references": {"overlap": [0.1, 0.5], "cosine": [0.1, 0.6]}}
    found = similarities.effects(PartResult("similarities", {"agreement": rows}, facts=facts))
    assert found["C3.agrees"].values[0] == pytest.approx(0.75)
    assert found["C3.more"].values[0] == pytest.approx(0.625)
    assert found["C3.cosine"].values[0] == pytest.approx(0.6)
    assert second("C3", found) == "reproduced"


def test_the_conjunction_over_time_and_bumps():
    rows = [
        {**learnt(s), "width": 8, "bumps": m, "steps": steps, "share": math.nan, "ood_localization": 1.0,
         "additive_median": a + s / 1000, "composed_median": c}
        for m, steps, a, c in ((0, 5, 0.6, 0.8), (0, 9, 0.95, 0.4), (100, 5, 0.5, 0.9), (100, 9, 0.5, 0.97))
        for s in range(10)
    ]  # fmt: skip
    part = PartResult("few_shot", {"runs": rows}, facts={"many": 100, "lengths": [5, 9], "width": 8})
    found = few_shot.effects(part)
    assert found["C9.additive"].values[0] == pytest.approx(0.55)
    assert found["C9.early"].values[0] == pytest.approx(-0.2)
    assert found["C9.rises"].values[0] == found["C10.rises"].values[0] == pytest.approx(1)
    assert found["C10.gain"].values[0] == pytest.approx(0.57)
    assert (second("C9", found), second("C10", found)) == ("reproduced", "reproduced")
    for row in rows:
        row["learnt"] = row["seed"] > 0
    assert set(few_shot.effects(part)["C9.additive"].left_out) == {0}


def test_mlps_that_never_learnt_do_not_decide():
    part = PartResult("depths", {"layers": [], "warp": []})
    for seed in range(10):
        for decoder, w in (("cnn", -0.4), ("mlp", 0.3), ("published", -0.2)):
            for code in ("bump", "ramp"):
                about = {"decoder": decoder, "code": code, "depth": 4}
                part.tables["layers"] += run_layers([1.0, 0.9, 1.0], **about, seed=seed)
                unlearnt = decoder == "mlp" and code == "ramp" and seed < 3
                part.tables["warp"].append({**learnt(seed, whether=not unlearnt), **about, "warp_median": w})
    found = depths.effects(part)
    assert found["C14.opposite_bump"].values[5] == pytest.approx(0.3)
    assert found["C14.published_ramp"].values[0] == pytest.approx(-0.2)
    assert set(found["C14.opposite_ramp"].left_out) == {0, 1, 2}
    outcome = {p.part.name: p.outcome for p in decide(edition_2.CLAIMS["C14"], found, range(10)).parts}
    assert outcome["opposite_ramp"] == "inconclusive"  # three of ten seeds
    assert outcome["published_bump"] == "not reproduced"


def test_growth_counts_censored_searches():
    rows = [
        {"kind": kind, "side": n, "seed": s, "reached": not (kind == "bumps" and n == 32 and s < 3), "most": 330,
         "below": below(n), "examples": float(examples(n))}
        for kind, below, examples in (("bumps", lambda n: int(0.0095 * n**3), lambda n: 0.0105 * n**3),
                                      ("stripes + bumps", lambda n: -1, lambda n: 2 * n))
        for n in (16, 20, 24, 28, 32) for s in range(10)
    ]  # fmt: skip
    found = scaling.effects(PartResult("scaling", {"thresholds": rows}))
    assert found["C11.bumps"].fit.exponent == pytest.approx(3, abs=0.3)
    assert found["C11.stripes"].fit.exponent == pytest.approx(1, abs=0.1)
    assert second("C11", found) == "reproduced"


def test_a_second_width_is_held_against_the_first():
    rows = [
        {**learnt(s), "code": code, "width": width, "distortion_ood_median": ood, "distortion_id_median": 0.1}
        for code in ("bump", "ramp")
        for width, ood in ((8, 0.5), (64, 0.5 if code == "bump" else 0.12))
        for s in (range(4) if width == 8 else range(2))
    ]
    part = PartResult("volume", {"warp": rows, "differences": []}, facts={"width": 8})
    assert set(volume.effects(part)["C6.bump"].values) == {0, 1, 2, 3}
    assert not volume.effects(part)["C6.bump_differences"].values
    swapped = replace(part, tables={"warp": [], "differences": rows})
    assert volume.effects(swapped)["C6.bump_differences"] == volume.effects(part)["C6.bump"]
    found = width_check(part, volume._effects, narrow=8, wide=64)
    assert [(row["part"], row["seed"]) for row in found] == [
        ("C6.bump", 0), ("C6.bump", 1), ("C6.ramp", 0), ("C6.ramp", 1)
    ]  # fmt: skip
    assert [row["same_side"] for row in found] == [True, True, False, False]  # 0.15 is asked for
    assert found[2]["value_narrow"] == pytest.approx(0.4)
    assert found[2]["value_wide"] == pytest.approx(0.02)
    assert width_check(part, volume._effects, narrow=8, wide=8) == []


def test_what_is_gone_on_a_covered_holdout_was_painting():
    rows = [
        {"holdout": holdout, "trained_on": code, "seed": s, "ood_localization": placed}
        for code, pair in (("bump", (0.4, 0.94)), ("onehot", (0.2, 0.2)))
        for holdout, placed in zip(("centre", "scattered"), pair)
        for s in range(3)
    ]
    found = {row["trained_on"]: row for row in never_lit.questions(PartResult("n", {"codes": rows, "data": []}))}
    assert found["bump"]["painting_share"] == pytest.approx(0.9)
    assert found["onehot"]["painting_share"] == pytest.approx(0)
    assert found["bump"]["p_more_than_half"] < 0.025 < found["onehot"]["p_more_than_half"]


def test_penalties_that_gain_nothing_once_there_are_stripes():
    errors = {(False, "none"): 1e-2, (False, "variance"): 1e-4, (True, "none"): 1e-4, (True, "variance"): 9e-5}
    rows = [
        {"stripes": stripes, "variant": variant, "seed": s, "ood_mse": error * (1 + s / 100)}
        for (stripes, variant), error in errors.items() for s in range(6)
    ]  # fmt: skip
    found = {(r["penalties"], r["stripes"]): r for r in stripes_and_penalties.questions(rows)}
    assert found["variance", False]["decades_gained"] == pytest.approx(2)
    assert found["variance", False]["p_much"] == pytest.approx(1 / 64)
    assert found["variance", True]["p_little"] == pytest.approx(1 / 64)
    assert found["both", True]["seeds"] == 0
