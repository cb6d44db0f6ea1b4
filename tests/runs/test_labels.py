"""Labels of factors in configurations and on the command line."""

import pytest

from recombine.core.errors import InputError
from recombine.runs.config import RunConfig

pytestmark = pytest.mark.quick
DIGITS = [
    "scene.kind=rotated_digit",
    "scene.factors={angle: {kind: cyclic, size: 12, step: 30.0}, digit: [four, seven]}",
    "scene.digits=[4, 7]",
    "encoding.kind=onehot",
    "holdout.kind=cells",
    "holdout.cells=[{digit: four, angle: {min: 90, max: 180}}]",
]


def test_labels_on_the_command_line():
    config = RunConfig.parse(DIGITS)
    assert config.scene["factors"]["digit"] == ["four", "seven"]
    assert config.holdout["cells"] == [{"digit": "four", "angle": {"min": 90.0, "max": 180.0}}]
    task = config.task()
    assert task.encoding.size == 14
    assert [task.space.label(int(cell)) for cell in task.holdout.ood_cells] == [
        f"angle={angle}, digit=four" for angle in (90, 120, 150, 180)
    ]
    config.check()
    again = RunConfig.from_dict(config.to_dict())
    assert (again.hash, again.task().holdout.hash) == (config.hash, task.holdout.hash)


def test_a_label_that_does_not_exist_is_named_with_its_key():
    with pytest.raises(InputError) as caught:
        RunConfig.parse([*DIGITS[:-1], "holdout.cells=[{digit: for}]"]).task()
    assert caught.value.key == "holdout.cells.0.digit"
    with pytest.raises(InputError) as caught:
        RunConfig.parse([*DIGITS, "encoding.kind=bump"]).task()
    assert caught.value.key == "encoding.kind"
