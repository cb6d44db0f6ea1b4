"""The contract that every part of a diagnosis keeps. A part joins by being in the catalogue."""

import ast
import json
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import nn

import recombine as rc
from recombine.core.errors import InputError, Missing, NotComputable
from recombine.diagnostics import parts as package
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.diagnostics.findings import PartResult, json_able
from recombine.diagnostics.numerics.conjunction import conjunction
from recombine.diagnostics.numerics.nonnegative_superposition import nonnegative_superposition
from recombine.diagnostics.part import PARTS, LayerPart, Need, Part, chosen_parts
from recombine.diagnostics.request import DiagnosisRequest
from recombine.models.forced_rendering.renderer import FactorRenderer
from recombine.report.arrays import Blobs, Block, BlockPacker
from tests.colour import coloured_task

SPACE = rc.FactorSpace(x=6, y=5)
HOLE = rc.holdouts.centre(SPACE, 2, 3)
CODE = rc.encodings.Bump(SPACE)
SCENE = rc.scenes.Bump(SPACE)


def network():
    """With a map for every factor value, so that there is something to find for every part."""
    torch.manual_seed(0)
    return nn.Sequential(FactorRenderer((6, 5), (3, 2)), nn.Flatten(), nn.ReLU(), nn.Linear(12, 30))


def diagnosed(**given):
    options = {"encode": CODE, "progress": False, "parts": list(PARTS), "draws": 2, **given}
    return rc.diagnose(network(), SPACE, **options)


@pytest.fixture(scope="module")
def full():
    return diagnosed(holdout=HOLE, target=SCENE)


@pytest.fixture(scope="module")
def without_truth():
    return diagnosed(holdout=HOLE)


@pytest.fixture(scope="module")
def without_holdout():
    return diagnosed(target=SCENE)


def test_every_module_of_the_folder_is_a_part():
    modules = {path.stem for path in Path(package.__path__[0]).glob("*.py")} - {"__init__"}
    assert modules == set(PARTS)


def test_parts_do_not_know_each_other():
    for path in Path(package.__path__[0]).glob("*.py"):
        names = [n.module for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        assert not [name for name in names if name and name.startswith("recombine.diagnostics.parts")], path


@pytest.mark.parametrize("name", PARTS)
class TestContract:
    def test_every_column_is_documented(self, full, name):
        part, found = PARTS[name], full[name]
        assert list(found.tables) == list(part.tables)
        for table, rows in found.tables.items():
            documented = part.tables[table]
            columns = [c for row in rows for c in row]
            for column in dict.fromkeys(columns):
                if column not in SPACE.names:
                    assert [d for d in documented if fnmatchcase(column, d)], (table, column)
            for pattern in documented:
                if pattern != "<factor>":
                    assert [c for c in columns if fnmatchcase(c, pattern)], (table, pattern)
            assert all(meaning.endswith(".") and "\n" not in meaning for meaning in documented.values())

    def test_what_it_needs_and_does_not_get_is_a_state(self, without_truth, without_holdout, name):
        for found, need, state in (
            (without_truth[name], Need.TRUTH, Missing.NO_TRUTH),
            (without_holdout[name], Need.HOLDOUT, Missing.NO_HOLDOUT),
        ):
            assert found.computed == (need not in PARTS[name].needs)
            assert found.computed or found.state is state
            assert all(isinstance(why.state, Missing) and why.reason for why in found.missing.values())

    def test_its_summary_is_one_line(self, full, without_truth, without_holdout, name):
        for diagnosis in (full, without_truth, without_holdout):
            if diagnosis[name].computed:
                summary = PARTS[name].summary(diagnosis[name])
                assert isinstance(summary, str)
                assert "\n" not in summary
        assert PARTS[name].summary(full[name])

    def test_its_numbers_by_layer_are_the_columns_it_announces(self, full, name):
        numbers = PARTS[name].layer_numbers(full[name])
        assert set(numbers) <= set(full.layers)
        columns = {column for row in numbers.values() for column in row}
        assert columns <= set(PARTS[name].layer_columns)
        assert bool(columns) == bool(PARTS[name].layer_columns)

    def test_files_give_it_back(self, full, name, tmp_path_factory):
        folder = tmp_path_factory.getbasetemp() / "diagnosis"
        if not folder.exists():
            full.save(folder)
        again, found = Diagnosis.load(folder)[name], full[name]
        assert again.missing == found.missing
        assert {t: len(rows) for t, rows in again.tables.items()} == {t: len(rows) for t, rows in found.tables.items()}
        for table in found.tables:
            columns = found.to_pandas(table)
            assert again.to_pandas(table).equals(columns.astype(again.to_pandas(table).dtypes))
        for array, numbers in found.arrays.items():
            np.testing.assert_array_equal(again.arrays[array], numbers)
        assert PARTS[name].summary(again) == PARTS[name].summary(found)

    def test_it_draws_and_has_a_page(self, full, without_truth, without_holdout, name):
        for diagnosis in (full, without_truth, without_holdout):
            if diagnosis[name].computed:
                assert isinstance(diagnosis.plot(name), Figure)
                page = PARTS[name].page(diagnosis[name], diagnosis)
                assert set(page.tables) <= set(diagnosis[name].tables)
                shapes = ((len(SPACE),), (len(diagnosis.layers), len(SPACE)))
                assert all(one.values.shape in shapes for one in page.maps)
                assert all(one.factor in ("", *SPACE.names) for one in page.maps)
                if PARTS[name].panel_items:
                    panel = PARTS[name].panel(diagnosis[name], diagnosis, BlockPacker(Blobs(), Block(name)), 3)
                    assert json.loads(json.dumps(json_able(panel)))


class Brightness(Part):
    """A part as a plug-in would write it."""

    name = "brightness"
    tables: ClassVar = {"cells": {"cell": "Number of the cell.", "brightness": "Mean of its output."}}

    def compute(self, inputs):
        means = inputs.outputs.flatten(1).mean(1).tolist()
        return PartResult(self.name, {"cells": [{"cell": i, "brightness": mean} for i, mean in enumerate(means)]})


class Powers(Part):
    """A part with settings of its own."""

    name = "powers"
    tables: ClassVar = {"cells": {"cell": "Number of the cell.", "power": "Mean power of its output."}}
    settings: ClassVar = {"exponent": 1.0, "name": "p"}

    def compute(self, inputs):
        powers = inputs.outputs.flatten(1).abs().pow(self.chosen(inputs.request)["exponent"]).mean(1).tolist()
        return PartResult(self.name, {"cells": [{"cell": i, "power": power} for i, power in enumerate(powers)]})


class Widths(LayerPart):
    """A layerwise part that has nothing to say of narrow layers."""

    name = "widths"
    tables: ClassVar = {"layers": {"layer": "Name of the layer.", "width": "How many units it has."}}

    def study(self, layer, inputs):
        if layer.units < 12:
            raise NotComputable(Missing.NOT_APPLICABLE, "the layer is narrow")
        return PartResult(self.name, {"layers": [{"layer": layer.name, "width": layer.units}]})


@pytest.fixture
def plugin_parts():
    for part in (Brightness, Powers, Widths):
        PARTS.register(part)
    yield
    for part in (Brightness, Powers, Widths):
        PARTS.remove(part.name)


def test_parts_on_request_are_computed_only_if_they_are_named():
    on_request = {name for name, part in PARTS.items() if part.on_request}
    assert on_request == {"conjunction", "draws", "free_weights", "kernel_references", "maps"}
    assert not on_request & {part.name for part in chosen_parts(rc.DiagnosisRequest())}
    found = diagnosed(holdout=HOLE, target=SCENE, parts=["maps", "errors"])
    assert found["maps"].computed
    assert found["conjunction"].state is Missing.NOT_REQUESTED
    plain = rc.diagnose(lambda code: code @ torch.ones(11, 30) * code.sum(1, keepdim=True), SPACE, CODE, HOLE,
                        target=SCENE, parts=["maps"], progress=False)  # fmt: skip
    assert plain["maps"].state is Missing.NOT_APPLICABLE


def test_conjunction_and_free_weights_are_those_of_the_numerics(full):
    task = rc.Task(SCENE, CODE, HOLE)
    model = network()
    images = nn.Sequential(model, nn.Unflatten(1, SCENE.output_shape))
    expected = conjunction(images, task)
    assert [row["additive"] for row in full["conjunction"].table("cells")] == pytest.approx(expected.additive)
    [row] = full["conjunction"].rows
    assert row["composed_median"] == pytest.approx(float(np.median(expected.composed)))
    with torch.no_grad():
        outputs = model(CODE(SPACE.values(torch.arange(30))))
    truth = SCENE(SPACE.values(torch.arange(30))).flatten(1)
    free = nonnegative_superposition(outputs, SPACE, HOLE, truth=truth, most_cells=30)
    assert [row["share"] for row in full["free_weights"].table("cells")] == pytest.approx(free.share, nan_ok=True)


def test_references_of_the_kernels_are_what_right_and_superposed_outputs_score():
    """A model that gives the truth, and one that gives means of memories, lie at the two ends."""
    cells = torch.arange(30)
    truth = SCENE(SPACE.values(cells)).flatten(1)
    where, trained = SPACE.coordinates(cells), torch.from_numpy(HOLE.id_mask.ravel())
    mixed = truth.clone()
    for cell in HOLE.ood_cells:
        mixed[cell] = truth[trained & (where == where[cell]).any(1)].mean(0)
    for outputs, end in ((truth, "right"), (mixed, "superposed")):
        found = rc.diagnose(lambda v, made=outputs: made[SPACE.cells(v)], SPACE, None, HOLE, target=SCENE,
                            parts=["kernels", "kernel_references"], progress=False)  # fmt: skip
        ends = {row["similarity"]: row[end] for row in found["kernel_references"].rows}
        assert ends == pytest.approx({row["similarity"]: row["correlation"] for row in found["kernels"].rows})


def test_maps_count_those_that_lie_along_no_axis():
    model = network()
    renderer = model[0]
    with torch.no_grad():
        model(CODE(SPACE.values(torch.arange(30))))
    found = rc.diagnose(model, SPACE, CODE, HOLE, parts=["maps"], progress=False)["maps"]
    [row] = found.rows
    banding = renderer.banding().detach()
    assert row["maps"] == 11
    assert row["banding_median"] == pytest.approx(float(np.median(banding.numpy())))
    assert row["trapped"] == int((banding < 0.5).sum())
    assert np.allclose(np.concatenate([found.arrays["maps/x"], found.arrays["maps/y"]]), renderer.maps().detach())


def test_a_part_joins_by_being_registered(plugin_parts):
    found = diagnosed(holdout=HOLE, parts=["brightness", "widths"])
    assert len(found["brightness"].rows) == 30
    assert found["widths"].rows == [{"layer": "2", "width": 12}, {"layer": "out", "width": 30}]
    assert found["widths"].missing["in"].state is Missing.NOT_APPLICABLE
    assert list(found.parts)[-3:] == ["brightness", "powers", "widths"]


def test_a_part_has_settings_of_its_own(plugin_parts, tmp_path):
    usual = diagnosed(parts=["powers"])
    squares = diagnosed(parts=["powers"], settings={"powers": {"exponent": 2}})
    assert usual["powers"].facts["settings"] == {"exponent": 1.0, "name": "p"}
    assert squares["powers"].facts["settings"] == {"exponent": 2, "name": "p"}
    assert squares["powers"].rows[3]["power"] != usual["powers"].rows[3]["power"]
    facts = Diagnosis.load(squares.save(tmp_path / "d"))["powers"].facts
    asked = [DiagnosisRequest(parts=["powers"], settings={"powers": {"exponent": value}}) for value in (2, 3)]
    assert [PARTS["powers"].answers(facts, request) for request in asked] == [True, False]
    assert DiagnosisRequest.from_json(json.loads(json.dumps(asked[0].to_json()))) == asked[0]


@pytest.mark.parametrize(
    ("settings", "key", "told"),
    [
        ({"powers": {"exponents": 2}}, "powers.exponents", "exponent"),
        ({"powers": {"exponent": "two"}}, "powers.exponent", "float"),
        ({"powers": {"name": 1}}, "powers.name", "str"),
        ({"brightness": {"bins": 2}}, "brightness.bins", "none"),
        ({"widths": {}}, "", "not requested"),
        ({"powers": 2}, "settings", "2"),
        ([1], "settings", "[1]"),
    ],
)
def test_wrong_settings_of_parts_are_refused(plugin_parts, settings, key, told, pytestconfig):
    if key == "settings" and "recombine," in pytestconfig.getoption("--jaxtyping-packages"):
        pytest.skip("the run-time check of types names them first")
    with pytest.raises(InputError) as raised:
        diagnosed(parts=["powers", "brightness"], settings=settings)
    assert raised.value.key == key
    assert told in str(raised.value)


def test_files_with_a_part_that_is_not_known_are_read(plugin_parts, tmp_path):
    saved = diagnosed(holdout=HOLE, parts=["brightness", "probes"]).save(tmp_path / "d")
    PARTS.remove("brightness")
    found = Diagnosis.load(saved)
    assert len(found.to_pandas("brightness")) == 30
    assert "brightness" not in str(found)
    with pytest.raises(InputError, match="plug-in"):
        found.plot("brightness")
    assert found.save(tmp_path / "again")
    assert Diagnosis.load(tmp_path / "again")["brightness"].rows == found["brightness"].rows


@pytest.mark.parametrize("error", [RuntimeError("a bug"), ValueError("a bug"), KeyError("a bug"), InputError("no")])
def test_errors_in_a_part_are_not_missing_results(plugin_parts, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(Brightness, "compute", fail)
    with pytest.raises(type(error)):
        diagnosed(parts=["brightness"])
    monkeypatch.setattr(Widths, "study", fail)
    with pytest.raises(type(error)):
        diagnosed(parts=["widths"])


def test_a_part_that_does_not_exist_is_missing_with_its_state(plugin_parts, monkeypatch):
    def fail(*_):
        raise NotComputable(Missing.TOO_LARGE, "too much")

    monkeypatch.setattr(Brightness, "compute", fail)
    monkeypatch.setattr(Widths, "study", fail)
    found = diagnosed(parts=["brightness", "widths"])
    assert found["brightness"].state is found["widths"].state is Missing.TOO_LARGE


def test_pictures_are_drawn_with_row_0_where_the_scene_has_it():
    task = coloured_task()
    model = rc.decoders.MLP(task, depth=1, width=4)
    found = rc.diagnose(model, task.space, task.inputs, task.holdout, target=task.targets,
                        parts=["superposition"], progress=False)  # fmt: skip
    for row_0, origin in (("top", "upper"), ("bottom", "lower")):
        figure = replace(found, facts={**found.facts, "row_0": row_0}).plot("superposition")
        pictures = [picture for ax in figure.findobj(Axes) for picture in ax.images]
        assert len(pictures) > 10
        assert {picture.origin for picture in pictures} == {origin}


def test_a_part_of_foreign_files_without_tables_is_an_error_with_its_name():
    with pytest.raises(InputError, match="'probes' has no table"):
        _ = PartResult("probes", {}).rows
