"""One declaration of parameters serves Python and configurations; every bad key is named at once."""

import importlib
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import Field, ValidationError

from recombine.core.errors import InputError
from recombine.core.registry import (
    Count,
    Family,
    Finite,
    NonNegative,
    NotIdentity,
    Parameters,
    Positive,
    Share,
    Since,
    member_of,
    nearest,
    reading_stored,
)

THINGS = Family("thing", (str,))


@THINGS.register("box")
class Box:
    """A class with parameters of every sort."""

    config: dict[str, Any]
    kind: str

    def __init__(
        self,
        context: str,
        width: Count,
        length: Positive = 2.0,
        share: Share = 0.5,
        offset: Finite = -1.0,
        decay: NonNegative = 0.0,
        shape: Literal["round", "square"] = "round",
        tags: list[str] | None = None,
    ) -> None:
        self.context, self.width, self.length, self.tags = context, width, length, tags


@THINGS.register("crate")
class Crate(Box):
    """A subclass with fewer parameters of its own."""

    def __init__(self, context: str, width: Count = 7) -> None:
        super().__init__(context, width=width, length=9.0)


class Made:
    config: dict[str, Any]

    def __init__(self, value: Any) -> None:
        self.value = value


@THINGS.register("made")
def made(context: str, amount: Annotated[int, Field(ge=0)] = 3) -> Made:
    """A function."""
    return Made((context, amount))


def message_of(make) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Box("here", 4, 3.0),
        lambda: Box("here", width=4, length=3.0),
        lambda: Box(context="here", width=4, length=3),
        lambda: THINGS.build({"kind": "box", "width": 4, "length": 3.0}, "here"),
        lambda: THINGS.build(Box("elsewhere", 4, length=3.0).config, "here"),
    ],
)
def test_all_ways_of_building_agree(build):
    box = build()
    assert (box.context, box.width, box.length, box.kind) == ("here", 4, 3.0, "box")
    assert box.config == {
        "kind": "box", "width": 4, "length": 3.0, "share": 0.5, "offset": -1.0, "decay": 0.0, "shape": "round",
        "tags": None,
    }  # fmt: skip


def test_functions_are_components_too():
    assert made("here", 5).value == ("here", 5)
    assert made("here").config == {"kind": "made", "amount": 3}
    assert THINGS.build({"kind": "made"}, "there").value == ("there", 3)


def test_a_subclass_keeps_its_own_configuration():
    crate = Crate("here")
    assert (crate.width, crate.length) == (7, 9.0)
    assert crate.config == {"kind": "crate", "width": 7}


def test_validation_fills_in_defaults_and_freezes():
    parameters = THINGS.validate({"kind": "made"})
    assert parameters.model_dump() == {"kind": "made", "amount": 3}
    with pytest.raises(ValidationError, match="frozen"):
        parameters.amount = 4  # type: ignore[attr-defined]


def test_unknown_kind_names_the_nearest_and_all():
    message = message_of(lambda: THINGS.build({"kind": "boxx"}, "here"))
    assert all(part in message for part in ("'boxx'", "'box'?", "box, crate, made"))
    assert "kind None" in message_of(lambda: THINGS.build({}, "here"))
    assert "kind ['box']" in message_of(lambda: THINGS.build({"kind": ["box"]}, "here"))


def test_kind_is_a_name_to_be_meant_in_a_configuration_only():
    assert "'knd' of thing 'made' (did you mean 'kind'?)" in message_of(
        lambda: THINGS.build({"kind": "made", "knd": "box"}, "here")
    )
    assert "did you mean" not in message_of(lambda: made("here", knd="box"))  # type: ignore[call-arg]


def test_all_bad_keys_are_named_at_once():
    message = message_of(lambda: Box("here", widht=3, lenght=1.0, share=2.0, shape="oval"))  # type: ignore[call-arg]
    lines = message.splitlines()
    assert len(lines) == 5
    assert "The 'width' parameter of thing 'box' is missing." in lines
    assert any(line.startswith("Unknown parameter 'widht' of thing 'box' (did you mean 'width'?).") for line in lines)
    assert any("'lenght'" in line and "did you mean 'length'?" in line for line in lines)
    assert any("'share'" in line and "less than or equal to 1" in line and "Got 2.0" in line for line in lines)
    assert any("'shape'" in line and "'round' or 'square'" in line and "Got 'oval'" in line for line in lines)


def test_unknown_parameter_lists_the_valid_ones():
    assert message_of(lambda: made("here", zzz=1)) == (  # type: ignore[call-arg]
        "Unknown parameter 'zzz' of thing 'made'. Parameters: amount."
    )


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("width", 0, "greater than or equal to 1"),
        ("width", 2.5, "valid integer"),
        ("width", "3", "valid integer"),
        ("width", True, "valid integer"),
        ("length", 0.0, "greater than 0"),
        ("length", float("inf"), "finite number"),
        ("length", "long", "valid number"),
        ("offset", float("nan"), "finite number"),
        ("decay", -0.1, "greater than or equal to 0"),
        ("tags", "a", "valid list"),
    ],
)
def test_wrong_types_and_ranges_are_explained(name, value, expected):
    message = message_of(lambda: THINGS.build({"kind": "box", "width": 1, name: value}, "here"))
    assert f"The {name!r} parameter of thing 'box' is wrong" in message
    assert expected in message
    assert f"Got {value!r} instead." in message
    assert len(message.splitlines()) == 1


words = st.text("abcdefghijklmnopqrstuvwxyz_", min_size=1, max_size=8)


@given(st.dictionaries(words, st.integers(), min_size=1, max_size=6))
def test_every_unknown_key_gets_a_line(extra):
    assume(not set(extra) & {"kind", *THINGS.models["made"].model_fields})
    message = message_of(lambda: THINGS.build({"kind": "made", **extra}, "here"))
    assert len(message.splitlines()) == len(extra)
    assert all(f"Unknown parameter {key!r} of thing 'made'" in message for key in extra)


@given(st.sampled_from(["width", "length", "offset", "decay"]), st.data())
def test_one_wrong_letter_finds_the_right_name(name, data):
    place = data.draw(st.integers(0, len(name) - 1))
    letter = data.draw(st.sampled_from("qxz"))
    misspelt = name[:place] + letter + name[place + 1 :]
    message = message_of(lambda: THINGS.build({"kind": "box", "width": 1, misspelt: 1}, "here"))
    assert f"Unknown parameter {misspelt!r} of thing 'box' (did you mean {name!r}?)" in message


def test_nearest_is_silent_without_a_close_name():
    assert nearest("widht", ["width", "depth"]) == " (did you mean 'width'?)"
    assert nearest("qqq", ["width", "depth"]) == ""
    assert nearest("width", []) == ""


def test_the_context_is_checked_and_named() -> None:
    message = message_of(lambda: Box(3, width=1))
    assert all(part in message for part in ("'box'", "str", "Got 3"))
    assert "It is missing." in message_of(lambda: made(amount=1))


def test_tuples_and_numpy_numbers_are_as_good_as_lists_and_numbers() -> None:
    box = Box("here", width=np.int64(3), length=np.float32(0.5), tags=("a", "b"))
    assert box.config["width"] == 3
    assert type(box.config["width"]) is int
    assert box.config["length"] == 0.5
    assert box.config["tags"] == ["a", "b"]


def test_every_problem_carries_its_key():
    with pytest.raises(InputError) as caught:
        THINGS.validate({"kind": "box", "widht": 3, "share": 2.0, "tags": ["a", 1]}, prefix="scene.")
    keys = {problem.key for problem in caught.value.problems}
    assert keys == {"scene.width", "scene.widht", "scene.share", "scene.tags.1"}
    with pytest.raises(InputError) as caught:
        THINGS.validate({"kind": "bag"}, prefix="scene.")
    assert caught.value.key == "scene.kind"


def versions() -> tuple[Family, Family]:
    """A family as it was in the first format, and with parameters that were added later."""
    first, later = Family("part"), Family("part")

    @first.register("pole")
    class Pole:
        def __init__(self, height: Count = 2) -> None: ...

    @first.register("fence")
    class Fence:
        def __init__(self, poles: list[Annotated[dict[str, Any], member_of(first)]]) -> None: ...

    @later.register("pole")
    class LaterPole:
        def __init__(
            self,
            height: Count = 2,
            colour: Annotated[str, Since(3)] = "grey",
            wood: Annotated[str, Since(4, "oak")] = "pine",  # the default changed after the introduction
        ) -> None: ...

    @later.register("fence")
    class LaterFence:
        def __init__(
            self,
            poles: list[Annotated[dict[str, Any], member_of(later)]],
            path: Annotated[str, NotIdentity()] = "",
        ) -> None: ...

    return first, later


def test_a_parameter_added_later_leaves_the_identity_of_those_that_do_not_use_it():
    first, later = versions()
    stored = first.validate({"kind": "fence", "poles": [{"kind": "pole", "height": 3}]}).model_dump()
    with reading_stored():
        read = later.validate(stored).model_dump()
    assert read["poles"] == [{"kind": "pole", "height": 3, "colour": "grey", "wood": "oak"}]
    assert later.identity(read) == first.identity(stored) == stored


def test_a_parameter_added_later_is_part_of_the_identity_of_those_that_use_it():
    _, later = versions()
    assert later.identity({"kind": "pole", "colour": "red"}) == {
        "kind": "pole", "height": 2, "colour": "red", "wood": "pine",
    }  # fmt: skip
    assert later.validate({"kind": "pole"}).model_dump()["wood"] == "pine"


def test_a_parameter_that_names_no_run_is_left_out_of_the_identity_only():
    _, later = versions()
    config = {"kind": "fence", "poles": [], "path": "somewhere"}
    assert later.validate(config).model_dump() == config
    assert later.identity(config) == {"kind": "fence", "poles": []}


def test_a_class_of_parameters_is_registered_as_it_is():
    family = Family("recipe")

    @family.register("plain")
    class Plain(Parameters):
        kind: Literal["plain"] = "plain"
        batch: Count = 4

    assert family.validate({"kind": "plain", "batch": 8}) == Plain(batch=8)


FAMILIES = ("core.scenes", "core.encodings", "core.holdouts", "core.datasets", "models.decoders", "training.examples",
            "training.losses", "training.loss_terms", "training.optimizers", "training.recipes")  # fmt: skip


@pytest.mark.parametrize("package", FAMILIES)
def test_a_member_of_a_family_joins_by_being_a_file(package):
    family = importlib.import_module(f"recombine.{package}")
    assert "\nimport_members(__name__)\n" in Path(str(family.__file__)).read_text(encoding="utf-8")
