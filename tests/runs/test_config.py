"""Configurations: defaults, overrides, hashes and errors."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recombine.core.errors import InputError
from recombine.models.decoders import DECODERS
from recombine.runs.config import DEFAULTS, GROUPS, RunConfig


def message_of(words) -> str:
    with pytest.raises(InputError) as error:
        RunConfig.parse(words)
    return str(error.value)


def test_the_defaults_are_the_papers_standard_setting():
    config = RunConfig.parse([])
    assert config.decoder == {"kind": "cnn", "depth": 4, "width": 64}
    assert config.encoding == {"kind": "bump", "width": 1.0}
    assert (config.holdout["lo"], config.holdout["hi"]) == (6.0, 22.0)
    assert config.scene["factors"] == {"x": 28, "y": 28}
    assert config.task().holdout.n_ood == 289


def test_two_ways_of_writing_a_run_are_one_run():
    assert RunConfig.parse([]) == RunConfig.parse(["decoder.depth=4", "holdout.lo=6", "encoding.width=1"])
    assert RunConfig.parse([]).hash == RunConfig.parse(["holdout.lo=6.0"]).hash
    assert RunConfig.parse(["holdout.lo=-0.0"]).hash == RunConfig.parse(["holdout.lo=0"]).hash
    assert RunConfig.parse(["holdout.lo=[-0.0,1]"]).hash == RunConfig.parse(["holdout.lo=[0,1]"]).hash
    assert (
        RunConfig.parse(["training.optimizer.weight_decay=-0.0"]).hash
        == RunConfig.parse(["training.optimizer.weight_decay=0"]).hash
    )
    assert (
        RunConfig.from_dict(RunConfig.parse(["decoder.kind=mlp"]).to_dict()).hash
        == RunConfig.parse(["decoder.kind=mlp"]).hash
    )


def test_the_hash_is_stable_across_versions_of_this_library():
    # A changed hash orphans every stored run: change it only on purpose, and say so in the changelog.
    assert RunConfig.parse([]).hash == "a79d65f3982eee04"


def test_every_setting_changes_the_hash_and_only_the_seed_leaves_the_seedless_one():
    words = ["decoder.width=8", "encoding.width=2", "holdout.hi=20", "scene.sigma=2", "training.batch=8", "seed=1"]
    assert len({RunConfig.parse([w]).hash for w in [*words, "seed=0"]}) == 7
    assert RunConfig.parse(["seed=1"]).seedless_hash == RunConfig.parse(["seed=2"]).seedless_hash
    assert RunConfig.parse(["decoder.width=8"]).seedless_hash != RunConfig.parse([]).seedless_hash


def test_the_order_of_the_factors_is_part_of_the_run():
    one, other = (RunConfig.parse([f"scene.factors={f}"]) for f in ('{"x":28,"y":28}', '{"y":28,"x":28}'))
    assert one.task().space.names != other.task().space.names
    assert one.hash != other.hash


def test_defaults_inside_nested_parts_are_filled_in():
    part, whole = '{"kind":"centre"}', '{"kind":"centre","lo":6,"hi":22}'
    words = ["holdout.kind=all_but", "training.allow_unseen=true"]
    assert (
        RunConfig.parse([*words, f"holdout.part={part}"]).hash
        == RunConfig.parse([*words, f"holdout.part={whole}"]).hash
    )
    mixed = ["encoding.kind=mixed", 'encoding.factors={"x":{"kind":"bump"},"y":{"kind":"ramp"}}']
    assert RunConfig.parse(mixed).encoding["factors"]["x"] == {"kind": "bump", "width": 1.0}


def test_another_kind_drops_the_old_keys_whatever_the_order():
    for words in (["decoder.kind=mlp", "decoder.depth=5"], ["decoder.depth=5", "decoder.kind=mlp"]):
        assert RunConfig.parse(words).decoder == {"kind": "mlp", "depth": 5, "width": 256}
    base = RunConfig.parse(["decoder.width=16"]).to_dict()
    assert RunConfig.parse(["decoder.kind=mlp"], base).decoder["width"] == 256
    assert RunConfig.parse(["decoder.depth=6"], base).decoder["width"] == 16


def test_the_default_kind_is_no_other_kind():
    base = {"decoder": {"depth": 2, "width": 16}, "scene": {"sigma": 2.0}}
    config = RunConfig.parse(["decoder.kind=cnn", "scene.kind=bump"], base)
    assert config.decoder == {"kind": "cnn", "depth": 2, "width": 16}
    assert config.scene["sigma"] == 2.0
    assert RunConfig.parse(["decoder.kind=mlp"], base).decoder == RunConfig.parse(["decoder.kind=mlp"]).decoder


def test_another_scene_keeps_the_factors():
    words = ["scene.factors.x=32", "scene.factors.y=32", "scene.kind=stripe", "holdout.kind=corner"]
    assert RunConfig.parse(words).scene["factors"] == {"x": 32, "y": 32}


def test_nested_values_are_json():
    factor = '{"kind":"discrete","size":3,"low":0.5,"step":0.5}'
    config = RunConfig.parse([f"scene.factors.size={factor}", 'holdout.factors=["x","y"]'])
    assert config.task().space.names == ("x", "y", "size")
    assert len(config.task().space) == 28 * 28 * 3


def test_all_errors_come_at_once_with_the_nearest_names():
    with pytest.raises(InputError) as error:
        RunConfig.parse(["decodr.depth=3", "decoder.widht=3", "holdout.lo=abc", "training.kind=papr", "seed=-1", "x"])
    message = str(error.value)
    for part in ("did you mean 'decoder'?", "did you mean 'decoder.width'?", "'holdout.lo'", "did you mean 'paper'?",
                 "seed must be", "Got 'x'"):  # fmt: skip
        assert part in message


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (
            ["scene.factor.x=8"],
            ["'scene.factor' of scene 'bump' (did you mean 'scene.factors'?)", "scene.columns, scene.factors."],
        ),
        (["holdout.knd=corner"], ["did you mean 'holdout.kind'?"]),
        (["encoding.kind=onehot", "encoding.kid=ramp"], ["(did you mean 'encoding.kind'?). It takes no parameters."]),
        (
            ["encoding.kind=mixed",
             'encoding.factors={"x":{"kind":"bump","widht":2},"y":{"kind":"ramp","normalised":true,"flg":true}}'],
            [
                "The 'encoding.factors' parameter of encoding 'mixed' is wrong at 'x': Unknown parameter 'widht' of "
                "encoding 'bump' (did you mean 'width'?).",
                "is wrong at 'y': Unknown parameter 'normalised' of encoding 'ramp' (did you mean 'normalized'?).",
                "is wrong at 'y': Unknown parameter 'flg' of encoding 'ramp' (did you mean 'flag'?).",
            ],
        ),
        (
            ["holdout.kind=any_of", 'holdout.parts=[{"kind":"cornr"},{"kind":"cros"},5]'],
            [
                "The 'holdout.parts' parameter of holdout 'any_of' is wrong at place 1: There is no holdout of kind "
                "'cornr' (did you mean 'corner'?).",
                "is wrong at place 2: There is no holdout of kind 'cros' (did you mean 'cross'?).",
                "is wrong at place 3: input should be a valid dictionary. Got 5 instead.",
            ],
        ),
        (
            ["holdout.kind=mask", f"holdout.lengths={[0.5] * 30}"],
            ["is wrong at place 20: input should be a valid integer", "of holdout 'mask' is wrong at 10 more places."],
        ),
        (
            ['training.terms={"entropy":{"weigth":1},"varience":{}}'],
            ["'weigth' of loss term 'entropy' (did you mean 'weight'?)", "'varience' (did you mean 'variance'?)"],
        ),
        (
            ['scene.factors={"x":{"kind":"cyclic","sise":8,"hue":1},"y":2.5,"z":null,"w":0}'],
            [
                "scene.factors is invalid: Factor 'x': a factor must be a number of values",
                "Unknown: 'sise' (did you mean 'size'?), 'hue'. Missing: size.",
                "Factor 'y': a factor must be a number of values",
                "Factor 'z': a factor must be a number of values",
                "Factor 'w': a factor's size must be an integer of at least 1. Got 0",
                "Example: scene.factors.x=32",
            ],
        ),
        (["scene.factors=null"], ['scene.factors is invalid: Factors must be given by name, as in', "Got None."]),
        (["scene.factors.self=5", "scene.factors.x=true"], ["Factor 'x': a factor's size must be", "Got True"]),
    ],
)  # fmt: skip
def test_every_mistake_is_told_by_name(words, parts):
    message = message_of(words)
    for part in parts:
        assert part in message
    for pythons_own in ("object", "argument", "NoneType"):
        assert pythons_own not in message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["decoder.depth=0"], "greater than or equal to 1. Got 0"),
        (["decoder.depth=2.5"], "Got 2.5"),
        (["decoder.depth=true"], "Got True"),
        (["encoding.width=-1"], "greater than or equal to 0.001. Got -1"),
        (["encoding.width=NaN"], "finite"),
        (["encoding.width=1e155"], "less than or equal to 1000000000. Got 1e.155"),
        (["scene.sigma=1e155"], "less than or equal to 1000000000. Got 1e.155"),
        (["scene.factors.x=0"], "size must be an integer"),
        (["scene.factors=7"], "scene.factors is invalid"),
        (["seed.kind=paper"], "seed must be an integer"),
        (["decoder=7"], "decoder must be a group of settings"),
        (["decoder.kind=7"], "no decoder of kind 7"),
        (["seed=1.5"], "seed must be an integer"),
        (["training.steps=0"], "greater than or equal to 1"),
    ],
)
def test_wrong_values_are_errors(words, message):
    with pytest.raises(InputError, match=message.replace("+", r"\+")):
        RunConfig.parse(words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["holdout.hi=40"], r"hi=40 lies outside the range of factor 'x', whose values range from 0 to 27"),
        (["holdout.lo=20", "holdout.hi=10"], "lo ≤ hi"),
        (["holdout.lo=0", "holdout.hi=27"], "there are no ID cells"),
        (["holdout.kind=orthotopic", "holdout.c=2"], "there are no OOD cells"),
        (["holdout.kind=gap", "holdout.factor=x", "holdout.lo=3", "holdout.hi=4"], r"x ∈ \{3, 4\}.*allow_unseen"),
    ],
)
def test_hold_outs_that_leave_nothing_to_learn_or_test_are_errors(words, message):
    with pytest.raises(InputError, match=message):
        RunConfig.parse(words).task()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["encoding.width=1e9"], r"encoding Bump\(width=.*\) does not work for factor 'x': its values 0 and 1 have"),
        (
            ["encoding.kind=positional", "encoding.base=1e-300"],
            r"encoding Positional\(.*base=1e-300\) does not work for factor 'x': the code of its value 0 is not",
        ),
        (
            ["encoding.kind=mixed", 'encoding.factors={"x":{"kind":"ramp"},"y":{"kind":"bump","width":1e8}}'],
            r"encoding Mixed\(.*\) does not work for factor 'y': its values 0 and 1 have",
        ),
        (
            ["scene.columns=100", 'scene.factors.x={"kind":"discrete","size":40,"low":2,"step":1e-9}', "holdout.lo=2",
             "holdout.hi=2", 'holdout.factors=["y"]'],
            "does not work for factor 'x': its values 2 and 2 have the same code",
        ),
    ],
)  # fmt: skip
def test_codes_that_do_not_tell_values_apart_are_errors(words, message):
    config = RunConfig.parse([*words, "training.allow_unseen=true"])
    with pytest.raises(InputError, match=message):
        config.check()


@pytest.mark.parametrize(
    "words",
    [
        ["holdout=" + '{"kind":"all_but","part":' * 400 + '{"kind":"centre"}' + "}" * 400],
        ["scene.factors.x=" + "[" * 900 + "]" * 900],
        ["seed=" + "[" * 100_000],
        [".".join(["holdout", *["part"] * 2000, "kind"]) + "=centre"],
    ],
    ids=["parts", "lists", "too deep to be read", "dots"],
)
def test_configurations_nested_too_deeply_are_errors(words):
    message = message_of([*words, "decoder.widht=3"])
    assert "nested more than 100 levels deep" in message
    assert len(message) < 1000


def test_unseen_values_are_allowed_when_asked_for():
    words = ["holdout.kind=gap", "holdout.factor=x", "holdout.lo=3", "holdout.hi=4", "training.allow_unseen=true"]
    assert RunConfig.parse(words).task().holdout.coverage().unseen == {"x": [3.0, 4.0], "y": []}


@pytest.mark.parametrize("kind", DECODERS.components)
def test_every_decoder_can_be_configured_and_built(kind):
    small = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", f"decoder.kind={kind}"]
    config = RunConfig.parse(small)
    assert config.model().config == config.decoder
    assert config.task().inverse == (kind == "encoder")


@settings(max_examples=60, deadline=None)
@given(
    group=st.sampled_from([*GROUPS, "seed", "nonsense"]),
    key=st.text(string.ascii_lowercase + ".", max_size=12),
    value=st.one_of(st.integers(), st.floats(), st.text(max_size=8), st.just("null"), st.just("[1]"), st.just("{}")),
)
def test_whatever_is_typed_is_a_configuration_or_an_input_error(group, key, value):
    try:
        config = RunConfig.parse([f"{group}.{key}={value}" if key else f"{group}={value}"])
    except InputError:
        return  # any other error fails the test
    assert set(config.to_dict()) == set(DEFAULTS)
    assert RunConfig.from_dict(config.to_dict()).hash == config.hash


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["decoder.width=0", "decoder.dpeth=2"], {"decoder.width", "decoder.dpeth"}),
        (["decoder.kind=nothing", "seed=-1", "colour=red"], {"decoder.kind", "seed", "colour"}),
        (["scene.factors.x=0"], {"scene.factors.x"}),
        (['holdout={"kind":"any_of","parts":[{"kind":"centre","lo":"a"}]}'], {"holdout.parts.0.lo"}),
        (["width"], {"width"}),
    ],
)
def test_problems_carry_the_keys_of_their_settings(words, keys):
    with pytest.raises(InputError) as caught:
        RunConfig.parse(words)
    assert {problem.key for problem in caught.value.problems} == keys
