"""What a specification means, and all that can be wrong with one."""

import re

import pytest

from recombine.core.errors import InputError
from recombine.runs.config import RunConfig
from recombine.sweeps.spec.spec import parse
from recombine.sweeps.spec.values import split_values

SMALL = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5"]
BASE = "base: {scene.factors: {x: 8, y: 8}, holdout: {lo: 2, hi: 5}}\n"


def written(tmp_path, text):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    return path


def seen(sweep, *keys):
    """The chosen keys of every run."""
    rows = []
    for config in sweep.configs:
        values = []
        for key in keys:
            node = config.to_dict()
            for part in key.split("."):
                node = node[part]
            values.append(node)
        rows.append(tuple(values))
    return rows


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("2,3,4", ["2", "3", "4"]),
        ("0..3", ["0", "1", "2", "3"]),
        ("7,0..1", ["7", "0", "1"]),
        ("[1,2],[3]", ["[1,2]", "[3]"]),
        ('{"a":{"b":1,"c":2}},null', ['{"a":{"b":1,"c":2}}', "null"]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("1e-3,0.5", ["1e-3", "0.5"]),
        ("", [""]),
    ],
)
def test_values_of_a_word(text, values):
    assert split_values(text) == values


def test_words_make_every_combination_in_order():
    sweep = parse([*SMALL, "decoder.kind=mlp", "decoder.depth=2,3", "encoding.kind=bump,ramp", "seed=0..1"])
    expected = [(d, e, s) for d in (2, 3) for e in ("bump", "ramp") for s in (0, 1)]
    assert seen(sweep, "decoder.depth", "encoding.kind", "seed") == expected
    assert (sweep.merged, sweep.excluded, sweep.notes) == (0, 0, [])


def test_of_several_words_for_one_key_the_last_counts():
    assert seen(parse([*SMALL, "seed=0..5", "seed=7"]), "seed") == [(7,)]


def test_duplicates_are_merged_and_said_so():
    sweep = parse([*SMALL, "seed=0,1,0", "decoder.kind=mlp"])
    assert seen(sweep, "seed") == [(0,), (1,)]
    assert sweep.notes == ["1 of 3 runs were given more than once. Each is trained once."]


def test_a_file_with_all_parts(tmp_path):
    path = written(
        tmp_path,
        BASE
        + """
grid:
  decoder.kind: [mlp, cnn]
  seed: 0..1
zip:
  decoder.depth: [2, 3]
  training.learning_rate: [1e-3, 0.002]   # YAML takes the first for text
list:
  - {encoding.kind: bump, encoding.width: 2.0}
  - {encoding.kind: ramp}
when:
  - if: {decoder.kind: cnn}
    set: {decoder.width: 16}
  - if: {decoder.kind: mlp, encoding.kind: ramp}
    grid: {decoder.width: [8, 9]}
exclude:
  - {decoder.kind: cnn, encoding.kind: ramp}
  - {decoder.depth: 3, seed: [1, 2]}
""",
    )
    sweep = parse([], path)
    rows = seen(sweep, "decoder.kind", "encoding.kind", "decoder.depth", "decoder.width", "seed")
    wanted = {
        (kind, code, depth, width, seed)
        for kind in ("mlp", "cnn")
        for code in ("bump", "ramp")
        for depth in (2, 3)
        for seed in (0, 1)
        for width in ((16,) if kind == "cnn" else (8, 9) if code == "ramp" else (256,))
        if not (kind == "cnn" and code == "ramp") and not (depth == 3 and seed == 1)
    }
    assert set(rows) == wanted
    assert len(rows) == len(wanted)
    assert {(c.decoder["depth"], c.training["learning_rate"]) for c in sweep.configs} == {(2, 1e-3), (3, 2e-3)}
    assert sweep.excluded == 8


def test_several_blocks_are_put_together_and_words_come_on_top(tmp_path):
    path = written(
        tmp_path,
        """
- base: {scene.factors: {x: 8, y: 8}, holdout: {lo: 2, hi: 5}, decoder.kind: mlp}
  grid: {seed: 0..9}
- base: {scene.factors: {x: 8, y: 8}, holdout: {lo: 2, hi: 5}, decoder.kind: cnn}
""",
    )
    assert len(parse([], path).configs) == 11
    assert seen(parse(["seed=4,5"], path), "decoder.kind", "seed") == [
        ("mlp", 4), ("mlp", 5), ("cnn", 4), ("cnn", 5),
    ]  # fmt: skip


def test_all_errors_of_a_file_are_told_at_once_with_their_places(tmp_path):
    path = written(
        tmp_path,
        BASE
        + """grid:
  decoder.kind: [mlp, cnm]
  decoder.widht: [3]
  seed: [0, -1]
zip: {decoder.depth: [2, 3], training.batch: [8]}
gird: {}
seed: 1
""",
    )
    with pytest.raises(InputError) as caught:
        parse([], path)
    told = str(caught.value)
    for part in ("line 6, column 6: keys in a zip must have the same number of values: decoder.depth has 2",
                 "line 7, column 1: unknown part 'gird' (did you mean 'grid'?)",
                 "line 8, column 1: unknown part 'seed'"):  # fmt: skip
        assert part in told
    path.write_text(BASE + "grid:\n  decoder.kind: [mlp, cnm]\n  decoder.widht: [3]\n  seed: [0, -1]\n")
    with pytest.raises(InputError) as caught:
        parse([], path)
    told = str(caught.value)
    for part in ("line 3, column 23: There is no decoder of kind 'cnm'",
                 "line 4, column 19: Unknown parameter 'decoder.widht' of decoder 'mlp' (did you mean",
                 "line 5, column 13: seed must be an integer"):  # fmt: skip
        assert part in told


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("grid: {seed: []}", "line 1, column 14: seed has no value"),
        ("grid: {seed: 3..1}", "line 1, column 14: A range is written first..last"),
        ("grid: {a: [", "line 1, column 12: .* is not valid YAML"),
        ("grid: {seed: 1, seed: 2}", "line 1, column 17: 'seed' is a duplicate of the key at line 1, column 8"),
        ("just words", "line 1, column 1: a sweep consists of the parts"),
        ("grid: [1]", "line 1, column 7: expected keys with values"),
        ("!!python/object/apply:os.system [ls]", "line 1, column 1: the tag .* is not allowed"),
        ("base: {seed: 1}\nexclude: [{seed: 1}]", "The sweep is empty: all 1 runs are excluded"),
        ("grid: {seed: 0..2}\nexclude: [{decoder.widht: 1}]", "line 2, column 12: no run of this sweep has the key"),
        ("when: [{set: {seed: 1}}]", "line 1, column 8: a conditional entry needs the part 'if'"),
        ("grid: {seed: 0..9999, training.steps: 1..9999}", "at most 100000 runs"),
        ("grid: {decodr.depth: [1]}", "line 1, column 23: Unknown group 'decodr' .did you mean 'decoder'"),
        ("grid: {decoder.depth: [1], scene.factors: [{x: 64, y: 64}]}", "decoder.depth=1, .*Use depth ≥ 4"),
    ],
)
def test_bad_files_say_what_and_where(tmp_path, text, message):
    with pytest.raises(InputError) as caught:
        parse([], written(tmp_path, text))
    assert re.search(message, str(caught.value)), str(caught.value)


def test_a_file_runs_no_code(tmp_path):
    with pytest.raises(InputError):
        parse([], written(tmp_path, f"base: !!python/object/apply:os.mkdir ['{tmp_path}/made']"))
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "The sweep is empty. Give key=value"),
        (["seed"], "Expected key=value"),
        (["decoder.depth="], "'decoder.depth=': decoder.depth has an empty value"),
        (["decoder.depth=2,x", "encoding.kind=bmp"], "'decoder.depth=2,x': The 'decoder.depth' parameter"),
        (["decoder.depth=2,x", "encoding.kind=bmp"], "'encoding.kind=bmp': There is no encoding of kind 'bmp'"),
        (["decoder.kind=mlp", "training.kind=low_rank"], "requires a FactorRenderer"),
        (["decoder.width=1000000000"], "must be at most"),
        (["decoder.kind=mlp", "decoder.width=900000"], "would need"),
    ],
)
def test_bad_words_say_what(words, message):
    with pytest.raises(InputError) as caught:
        parse(words)
    assert message in str(caught.value)


def test_a_condition_that_never_holds_is_noted(tmp_path):
    path = written(tmp_path, BASE + "grid: {seed: 0..2}\nexclude: [{seed: 9}]")
    assert parse([], path).notes == ["line 3, column 12: no run satisfies this condition."]


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"none\.yaml is missing"):
        parse([], tmp_path / "none.yaml")


def test_words_count_whatever_the_file_sets_under_when(tmp_path):
    text = BASE + "when: [{if: {decoder.kind: cnn}, set: {training.steps: 9, decoder.width: 4}}]\n"
    found = parse(["training.steps=1"], written(tmp_path, text + "grid: {decoder.kind: [cnn]}\n"))
    assert seen(found, "training.steps", "decoder.width") == [(1, 4)]


def test_wrong_values_are_told_beside_wrong_parts(tmp_path):
    text = BASE + "foo: 1\ngrid: {decoder.depth: [], decoder.width: [4, four]}\n"
    with pytest.raises(InputError) as told:
        parse([], written(tmp_path, text))
    assert all(word in str(told.value) for word in ("foo", "decoder.depth", "four"))


def test_a_word_that_hides_another_is_noted():
    found = parse([*SMALL, "seed=1", "seed=2,3"])
    assert found.notes == ["seed was given several times. The last value is used."]


def test_runs_that_are_excluded_count_for_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("recombine.sweeps.spec.spec.MOST_RUNS", 5)
    text = BASE + "when: [{if: {decoder.kind: cnn}, grid: {seed: 0..9}}]\nexclude: [{decoder.kind: cnn}]\n"
    with pytest.raises(InputError, match="at most 5 runs"):
        parse([], written(tmp_path, text))


def test_a_plan_of_many_runs_looks_at_a_sample_and_says_so():
    words = ["decoder.kind=mlp", "decoder.depth=1", "decoder.width=1..25", "seed=0..799"]
    found = parse(words, check=False, sample=True)
    assert len(found.configs) == 1000
    assert found.share == 0.05
    assert "1000 of 20000 combinations" in found.notes[0]
    together = {(config.seedless_hash, config.seed // 4) for config in found.configs}
    assert len(together) == 250  # seeds that train together are drawn together
    assert parse(words, check=False, sample=True).configs == found.configs


def test_a_plan_also_samples_runs_that_conditional_entries_multiply(tmp_path):
    text = BASE + "grid: {decoder.kind: [mlp, cnn]}\nwhen: [{if: {decoder.kind: mlp}, grid: {seed: 0..3998}}]\n"
    found = parse([], written(tmp_path, text), check=False, sample=True)
    assert "1000 of 4000 combinations" in found.notes[0]
    assert len(found.configs) == 1000
    assert found.share == 0.25


def test_runs_are_counted_before_they_are_configured(tmp_path, monkeypatch):
    configured = []
    monkeypatch.setattr("recombine.sweeps.spec.spec.MOST_RUNS", 50)
    monkeypatch.setattr(
        "recombine.sweeps.spec.spec._configured", lambda settings, problems: configured.append(settings)
    )
    entry = "{if: {decoder.kind: mlp}, grid: {decoder.width: 1..9}}"
    text = "base: {decoder.kind: mlp}\nwhen: [" + ", ".join([entry] * 40) + "]\n"
    with pytest.raises(InputError, match="at most 50 runs"):
        parse([], written(tmp_path, text))
    assert not configured


def test_a_problem_of_many_settings_is_named_once():
    with pytest.raises(InputError, match=r"\(and 8 other settings\)") as raised:
        parse(["decoder.kind=cnn", "decoder.depth=1", "decoder.width=1..9"])
    assert str(raised.value).count("\n") == 0


def test_a_small_plan_looks_at_every_run():
    found = parse(["decoder.kind=mlp", "seed=0..9"], check=False, sample=True)
    assert len(found.configs) == 10
    assert found.share == 1.0
    assert not found.notes


def test_a_bug_is_not_told_as_a_lack_of_memory(monkeypatch):
    def bug(self):
        raise RuntimeError("a bug")

    monkeypatch.setattr(RunConfig, "check", bug)
    with pytest.raises(RuntimeError, match="a bug"):
        parse(["seed=0"])
