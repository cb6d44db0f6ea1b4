"""Runs whose kinds have no defaults for everything still get a command."""

from recombine.report.facts import overrides
from recombine.runs.config import RunConfig


def test_a_kind_without_defaults_is_told_by_its_configuration_file():
    words = ['encoding.factors={"x":{"kind":"bump"},"y":{"kind":"ramp"}}', "encoding.kind=mixed"]
    assert overrides(RunConfig.parse(words)) is None
    assert overrides(RunConfig.parse(["decoder.width=8", "seed=3"])) == ["decoder.width=8", "seed=3"]
