"""The verdict, on decoders whose answer is known by construction."""

import json
import math
from dataclasses import replace

import pytest
import torch
from benchmarks.verdicts.bank import make
from benchmarks.verdicts.evaluate import evidence_of, outcome, outcomes
from benchmarks.verdicts.settings import SEEDS, settings
from torch import nn

import recombine as rc
from recombine.diagnostics.cells.classes import CellClass
from recombine.diagnostics.cells.evidence import gather_evidence
from recombine.diagnostics.cells.nonnegative_sums import nonnegative_weights
from recombine.diagnostics.cells.thresholds import THRESHOLDS
from recombine.diagnostics.verdict import FactorValues, Undecided, Verdict, VerdictKind, judge
from recombine.diagnostics.verdict.judge import wilson
from recombine.diagnostics.verdict.sentence import sentence

SPACE = rc.FactorSpace(x=12, y=12)
HOLE = rc.holdouts.centre(SPACE, 4, 8)
SCENE = rc.scenes.Bump(SPACE)
CELLS = torch.arange(len(SPACE))
HELD = torch.from_numpy(HOLE.mask.ravel())
TRUTH = SCENE(SPACE.values(CELLS)).reshape(-1, 12, 12)


class Table(nn.Module):
    """Answers every combination from a table of outputs; the code is the pair of factor values."""

    def __init__(self, outputs):
        super().__init__()
        self.register_buffer("outputs", outputs)

    def forward(self, values):
        return self.outputs[SPACE.cells(values)]


def diagnosed(outputs, holdout=HOLE, **options):
    options = {"parts": "superposition", "progress": False, **options}
    return rc.diagnose(Table(outputs), SPACE, None, holdout, **options)


def judged(outputs, truth=TRUTH, held=HELD):
    return judge(gather_evidence(outputs, SPACE, trained=~held, unseen=held, truth=truth))


def with_unseen(images):
    outputs = TRUTH.clone()
    outputs[HELD] = images
    return outputs


def sums(truth=TRUTH, held=HELD):
    """The mean of the trained images that share x or y."""
    outputs, at = truth.clone(), SPACE.coordinates(CELLS)
    for cell in held.nonzero()[:, 0]:
        outputs[cell] = truth[(at == at[cell]).any(1) & ~held].mean(0)
    return outputs


@pytest.mark.parametrize(
    ("outputs", "kind"),
    [
        (TRUTH, VerdictKind.COMPOSES),
        (sums(), VerdictKind.SUPERPOSES),
        (with_unseen(0.4 * TRUTH[HELD]), VerdictKind.FAILS),
        (with_unseen(2 * TRUTH[HELD]), VerdictKind.FAILS),
        (with_unseen(TRUTH[~HELD].mean(0)), VerdictKind.COLLAPSES),
        (with_unseen(TRUTH[0]), VerdictKind.COPIES),
        (255 * TRUTH, VerdictKind.UNDECIDED),
        (0.1 * TRUTH.flip(0), VerdictKind.NOT_LEARNT),
    ],
)
def test_plain_cases(outputs, kind):
    assert judged(outputs).kind is kind


def one_factor_decoder(kind):
    """A digit at 120 angles, those strictly between 90° and 132° held out: the truth, the outputs and what is held."""
    space = rc.FactorSpace(angle=rc.factors.cyclic(360.0, 120, low=1.5))
    angle = space.values(torch.arange(120))[:, 0]
    held = (angle > 90) & (angle < 132)
    truth = rc.scenes.RotatedDigit(space, digits=[7])(space.values(torch.arange(120))).double()
    before, after = truth[~held & (angle < 110)][-1], truth[~held & (angle > 110)][0]
    weight = ((angle[held] - 89) / 44)[:, None, None]
    answers = {
        "right": truth[held],
        "blend": (1 - weight) * before + weight * after,
        "nearest": torch.where(weight < 0.5, before, after),
        "mean": truth[~held].mean(0),
        "mirrored": truth[held].flip(2),
        "wrong angle": truth.roll(4, 0)[held],
        "faint": 0.4 * truth[held],
    }
    outputs = truth.clone()
    outputs[held] = answers[kind].to(truth)
    return space, truth, outputs, held


@pytest.mark.parametrize(
    ("kind", "verdict"),
    [
        ("right", VerdictKind.COMPOSES),
        ("blend", VerdictKind.SUPERPOSES),
        ("nearest", VerdictKind.COPIES),
        ("mean", VerdictKind.COLLAPSES),
        ("mirrored", VerdictKind.FAILS),
        ("wrong angle", VerdictKind.FAILS),
        ("faint", VerdictKind.FAILS),
    ],
)
def test_one_factor(kind, verdict):
    space, truth, outputs, held = one_factor_decoder(kind)
    assert judge(gather_evidence(outputs, space, trained=~held, unseen=held, truth=truth)).kind is verdict


@pytest.mark.parametrize("error", [0.0, 1e-3])
def test_outputs_of_two_numbers_can_be_equal_without_being_blank(error):
    truth = SPACE.values(CELLS).double() / 12  # of an encoder that reads off x and y
    noise = torch.randn(truth.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    found = judged(truth + error * noise, truth)
    assert found.kind is VerdictKind.COMPOSES
    assert found.right == 1.0


def test_a_true_image_that_is_blank_can_be_right():
    truth = TRUTH.clone()
    truth[HELD.nonzero()[0, 0]] = 0.3
    assert judged(truth, truth).right == 1.0


def test_memories_that_depend_on_each_other_up_to_rounding():
    gram = torch.ones(1, 3, 3, dtype=torch.float64) - 1e-7 * torch.eye(3, dtype=torch.float64)
    weights = nonnegative_weights(gram, torch.full((1, 3), 2.0, dtype=torch.float64))
    assert bool((weights >= 0).all())
    assert float(weights.sum()) == pytest.approx(2, rel=1e-3)


def constant_value(shown):
    """Four colours and six positions: unseen outputs are right but for the colour, which is always the same."""
    space = rc.FactorSpace(colour=["red", "green", "blue", "white"], x=6)
    tints = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    at = space.coordinates(torch.arange(24))
    truth = (tints[at[:, 0], :, None] * torch.eye(6)[at[:, 1], None]).repeat_interleave(3, 2)
    held = torch.zeros(4, 6, dtype=torch.bool)
    held[:, 2:5] = True
    held[shown, 4] = held[(shown + 1) % 4, 2] = False
    held = held.flatten()
    outputs = truth.clone()
    outputs[held] = truth.reshape(4, 6, 3, -1)[shown, at[held, 1]]
    return judge(gather_evidence(outputs, space, trained=~held, unseen=held, truth=truth))


@pytest.mark.parametrize("shown", [0, 3])
def test_values_that_are_right_by_chance_are_said_to_be(shown):
    found = constant_value(shown)
    [row] = [row for row in found.factors if row.fails]
    assert row.factor == "colour"
    assert row.chance == pytest.approx(row.unseen) == pytest.approx(found.right)  # two of ten
    assert "by chance" in found.sentence
    assert "by chance" not in judged(with_unseen(TRUTH.roll(1, 2)[HELD])).sentence


def test_without_truth_nothing_is_called_wrong():
    outputs = TRUTH.clone()
    for cell in HELD.nonzero()[:, 0]:
        x, y = SPACE.coordinates(cell[None])[0].tolist()
        outputs[cell] = TRUTH[cell] if (x + y) % 4 == 0 else TRUTH[12 * x + 2]
    found = judged(outputs, None)
    assert found.kind is VerdictKind.COPIES
    assert "wrong" not in found.sentence


def test_without_truth_an_output_near_the_mean_that_a_sum_explains_is_no_collapse():
    space = rc.FactorSpace(x=6, y=6, z=4)
    truth = torch.rand(144, 10, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    held = torch.rand(144, generator=torch.Generator().manual_seed(2)) < 0.3
    at, outputs = space.coordinates(torch.arange(144)), truth.clone()
    for cell in held.nonzero()[:, 0]:
        outputs[cell] = truth[(at == at[cell]).any(1) & ~held].mean(0)
    assert judge(gather_evidence(outputs, space, trained=~held, unseen=held)).kind is not VerdictKind.COLLAPSES
    outputs[held] = truth[~held].mean(0)
    assert judge(gather_evidence(outputs, space, trained=~held, unseen=held)).kind is VerdictKind.COLLAPSES


def test_memories_are_not_said_to_compose():
    copies = judged(with_unseen(torch.stack([TRUTH[int(c) // 12 * 12 + 2] for c in HELD.nonzero()[:, 0]])))
    assert copies.kind is VerdictKind.COPIES
    assert "compose" not in copies.sentence


def test_a_bright_background_changes_nothing():
    assert judged(1 - sums(), 1 - TRUTH).kind is VerdictKind.SUPERPOSES
    assert judged(1 - TRUTH, 1 - TRUTH).kind is VerdictKind.COMPOSES


def test_without_truth_structure_alone_decides():
    assert judged(sums(), None).kind is VerdictKind.SUPERPOSES
    right = judged(TRUTH, None)
    assert (right.kind, right.reason) == (VerdictKind.UNDECIDED, Undecided.NO_TRUTH)
    stripes = [rc.scenes.Stripe(SPACE, factor=name)(SPACE.values(CELLS)) for name in ("x", "y")]
    additive = sum(stripes).reshape(-1, 12, 12)
    assert judged(additive, None).kind is VerdictKind.UNDECIDED
    assert judged(additive, additive).kind is VerdictKind.COMPOSES


@pytest.mark.parametrize("sigma", [1.0, 2.0, 3.0])
def test_wide_bumps_are_told_apart_too(sigma):
    held = torch.from_numpy(rc.holdouts.corner(SPACE, 6).mask.ravel())
    truth = rc.scenes.Bump(SPACE, sigma=sigma)(SPACE.values(CELLS)).reshape(-1, 12, 12)
    assert judged(truth, truth, held).kind is VerdictKind.COMPOSES
    assert judged(sums(truth, held), truth, held).kind is VerdictKind.SUPERPOSES


@pytest.mark.parametrize("sigma", [2.0, 3.0])
def test_crosses_in_place_of_bumps_are_not_learnt(sigma):
    truth = rc.scenes.Bump(SPACE, sigma=sigma)(SPACE.values(CELLS)).reshape(-1, 12, 12).double()
    codes = torch.cat([nn.functional.one_hot(axis, 12).double() for axis in SPACE.coordinates(CELLS).T], dim=1)
    images = torch.linalg.lstsq(codes[~HELD], truth[~HELD].flatten(1), driver="gelsd").solution
    crosses = (codes @ images).reshape(-1, 12, 12)  # the best sum of an image per x and an image per y
    found = judged(crosses, truth)
    assert found.id_error < 0.35  # learnt, if the error alone decided
    assert found.kind is VerdictKind.NOT_LEARNT
    assert found.trained[CellClass.RIGHT] < 0.5


def test_blurred_bumps_compose():
    blurred = judged(nn.functional.avg_pool2d(TRUTH, 3, 1, 1))
    assert blurred.id_error > 0.1
    assert (blurred.kind, blurred.blurred) == (VerdictKind.COMPOSES, True)


def test_the_sentence_of_not_learnt_claims_no_right_cells_where_the_error_decides():
    noise = torch.randn(TRUTH.shape, generator=torch.Generator().manual_seed(0))
    found = judged(TRUTH + 0.4 * noise)
    assert found.kind is VerdictKind.NOT_LEARNT
    assert found.trained[CellClass.RIGHT] > 0.5  # within what other trained cells miss as well
    assert "are right" not in found.sentence


@pytest.mark.parametrize("code", [rc.encodings.Bump, rc.encodings.Ramp, rc.encodings.OneHot])
@pytest.mark.parametrize("kind", [rc.decoders.MLP, rc.decoders.CNN])
def test_an_untrained_network_has_not_learnt(code, kind):
    encode = code(SPACE)
    model = kind(rc.Task(SCENE, encode, HOLE), depth=2, width=16).initialize(0)
    options = {"parts": "superposition", "progress": False}
    assert rc.diagnose(model, SPACE, encode, HOLE, target=SCENE, **options).verdict.kind is VerdictKind.NOT_LEARNT
    assert rc.diagnose(model, SPACE, encode, HOLE, **options).verdict.kind is VerdictKind.UNDECIDED


def test_the_evidence_is_kept(tmp_path):
    found = diagnosed(sums(), target=SCENE)
    assert found.verdict.kind is VerdictKind.SUPERPOSES
    part = found["superposition"]
    rows = [row for row in part.table("classes") if row["split"] == "ood"]
    assert len(rows) == HOLE.n_ood
    assert {row["class"] for row in rows} == {"sum"}
    weights, memories = part.arrays["memories/weights"], part.arrays["memories/cells"]
    assert len(weights) == HOLE.n_ood
    assert not HELD[torch.from_numpy(memories[memories >= 0]).long()].any()
    left = part.arrays["pictures/output"] - part.arrays["pictures/sum"]
    assert float(abs(left).max()) < 0.1
    again = rc.Diagnosis.load(found.save(tmp_path / "kept"))
    assert again.verdict == found.verdict


@pytest.mark.parametrize(
    ("holdout", "reason"),
    [
        (None, Undecided.NO_HOLDOUT),
        (torch.zeros(12, 12, dtype=torch.bool), Undecided.NOTHING_UNSEEN),
        (torch.ones(12, 12, dtype=torch.bool), Undecided.NOTHING_TRAINED),
        (rc.holdouts.centre(SPACE, 4, 5), Undecided.TOO_FEW_CELLS),
    ],
)
def test_bad_hold_outs_leave_it_undecided(holdout, reason):
    found = diagnosed(TRUTH, holdout, target=SCENE).verdict
    assert (found.kind, found.reason) == (VerdictKind.UNDECIDED, reason)
    assert diagnosed(TRUTH, target=SCENE, parts="outputs").verdict.reason is Undecided.NOT_COMPUTED


def test_json_and_back():
    for verdict in (judged(sums()), judged(sums(), None), judged(255 * TRUTH)):
        content = json.loads(json.dumps(verdict.to_json(), allow_nan=False))
        assert Verdict.from_json(content).to_json() == verdict.to_json()


def test_the_interval_of_a_share():
    low, high = wilson(0.5, 100)
    assert (low, high) == (pytest.approx(0.4038, abs=1e-4), pytest.approx(0.5962, abs=1e-4))
    assert wilson(1.0, 10)[1] == pytest.approx(1)
    assert math.isnan(wilson(math.nan, 5)[0])


SAMPLE = [one for one in settings("design") if one.n_factors == 3 and one.colour and one.seed[-1] == 0]
HARD = {"blend_along_one_factor"}  # blended hues that are nearly a copy of one


@pytest.mark.parametrize("chosen", [one for one in SAMPLE if one.kind not in HARD], ids=lambda one: one.kind)
def test_a_sample_of_the_bank(chosen):
    case = make(chosen)
    assert case is not None
    found = outcome(case, evidence_of(case))
    assert found.right, str(found.verdict)
    assert found.share_off <= 0.05
    assert found.factors_right is not False
    assert not found.without_gap


@pytest.mark.long
@pytest.mark.parametrize("half", SEEDS)
def test_the_whole_bank(half):
    found = list(outcomes(case for one in settings(half) if (case := make(one)) is not None))
    assert len(found) >= 500
    assert sum(one.right for one in found) >= 0.97 * len(found)
    assert not any(one.without_gap for one in found)
    named = [one.factors_right for one in found if one.factors_right is not None]
    assert sum(named) >= 0.95 * len(named)


def test_a_draw_of_many_unseen_cells_says_of_how_many(monkeypatch):
    whole = judged(sums())
    assert whole.drawn_from is None
    assert "drawn_from" not in whole.to_json()
    monkeypatch.setattr("recombine.diagnostics.cells.evidence.MOST_CELLS", 10)
    drawn = judged(sums())
    assert (drawn.kind, drawn.unseen_cells, drawn.drawn_from) == (whole.kind, 10, HOLE.n_ood)
    assert drawn.interval[1] > whole.interval[1]  # fewer cells tell less
    assert f"sampled from {HOLE.n_ood}" in drawn.sentence
    assert Verdict.from_json(drawn.to_json()).drawn_from == HOLE.n_ood


def test_the_sentence_says_which_factors_compose():
    def said(x, y, kind=VerdictKind.FAILS):
        rows = (FactorValues("x", x, 1.0, x <= 0.5), FactorValues("Y", y, 1.0, y <= 0.5))
        return sentence(replace(judged(sums()), kind=kind, factors=rows))

    assert "x composes" in said(0.98, 0.1)
    assert "Y does not (10 %)" in said(0.98, 0.1)
    assert "compose" not in said(0.52, 0.48)  # no factor is clearly better than the other
    assert "compose" not in said(0.1, 0.1)


def test_the_sentence_of_several_ways_does_not_deny_one_of_them():
    found = replace(judged(sums()), kind=VerdictKind.FAILS)
    mixed = {CellClass.COPY: 0.45, CellClass.SUM: 0.3, CellClass.OTHER: 0.25}
    assert "in several ways" in sentence(replace(found, unseen=mixed))
    assert "neither superposes" in sentence(replace(found, unseen={CellClass.STRENGTH: 1.0}))


def test_other_scales_are_told_to_the_user():
    found = diagnosed(20 * TRUTH + 3, target=SCENE).verdict
    assert (found.kind, found.reason) == (VerdictKind.UNDECIDED, Undecided.DIFFERENT_SCALES)


def test_thresholds_matter():
    assert (
        judge(
            gather_evidence(sums(), SPACE, trained=~HELD, unseen=HELD, truth=TRUTH), replace(THRESHOLDS, fewest=100)
        ).reason
        is Undecided.TOO_FEW_CELLS
    )


BLOBS = rc.FactorSpace(x=6, y=6, size=[1.0, 1.5, 2.0])
CORNER = torch.from_numpy((rc.holdouts.corner(BLOBS, 3, factors=["x", "y"])).mask.ravel())


def blobs():
    values, pixel = BLOBS.values(), torch.arange(12.0)
    across, down = (pixel - 2 * values[:, axis, None] - 0.5 for axis in (0, 1))
    far = down[:, :, None].square() + across[:, None, :].square()
    return torch.exp(-far / (2 * values[:, 2, None, None].square()))


@pytest.mark.parametrize(
    "made",
    [
        lambda truth, relatives: -truth,
        lambda truth, relatives: 1 - truth,
        lambda truth, relatives: -relatives[:2].sum(0),
    ],
    ids=["minus the truth", "one minus the truth", "minus two memories"],
)
def test_memories_that_cancel_one_another_are_no_sum(made):
    """With their mean removed, the 39 memories of a cell span nearly all images, also with weights ≥ 0."""
    truth, at = blobs(), BLOBS.coordinates(torch.arange(len(BLOBS)))
    outputs = truth.clone()
    for cell in CORNER.nonzero()[:, 0]:
        shares = (at == at[cell]).any(1) & ~CORNER
        outputs[cell] = made(truth[cell], truth[shares])
    found = judge(gather_evidence(outputs, BLOBS, trained=~CORNER, unseen=CORNER, truth=truth))
    assert found.kind is VerdictKind.FAILS
    assert CellClass.SUM not in found.unseen


def test_memories_that_add_up_are_a_sum_with_three_factors():
    truth, at = blobs(), BLOBS.coordinates(torch.arange(len(BLOBS)))
    outputs = truth.clone()
    for cell in CORNER.nonzero()[:, 0]:
        relatives = truth[((at == at[cell]).sum(1) == 2) & ~CORNER]
        outputs[cell] = 2 * relatives.mean(0)
    found = judge(gather_evidence(outputs, BLOBS, trained=~CORNER, unseen=CORNER, truth=truth))
    assert found.kind is VerdictKind.SUPERPOSES
