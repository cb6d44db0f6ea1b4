"""Every example of docs/extending is run: through one sweep on worker processes, as a study, and as an engine."""

import itertools
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from recombine import sweeps
from recombine.cli.app import app
from recombine.core import plugins
from recombine.diagnostics.request import DiagnosisRequest
from recombine.runs.store import Store
from recombine.studies.framework.study import discover

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted((DOCS / "extending").glob("*.md"))
WITHOUT_CONFIGURATION = {"metric", "part", "study", "engine"}  # kinds that no setting of a run names


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def words(page):
    """The command of a page, as words."""
    [command] = blocks(page, "sh")
    program, *rest = shlex.split(command.replace("\\\n", " "))
    assert program == "recombine"
    return rest


def settings(page):
    """The KEY=VALUE words of a page's sweep."""
    return [word for option, word in itertools.pairwise(words(page)) if "=" in word and option != "--set"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The file of every page, all of them in use."""
    folder = tmp_path_factory.mktemp("plugins")
    found = {}
    for page in PAGES:
        [code] = blocks(page, "python")
        found[page.stem] = folder / f"{page.stem}.py"
        found[page.stem].write_text(code)
        assert code.startswith(f"# {page.stem}.py\n")
        assert words(page)[-2:] == ["--plugin", f"{page.stem}.py"]
    used = [plugins.use(path) for path in found.values()]
    yield found
    for plugin in used:
        plugins._unload(plugin)


@pytest.fixture(scope="module")
def swept(files, tmp_path_factory):
    """The runs of all pages by page, trained and diagnosed on worker processes."""
    wanted = {page.stem: sweeps.parse(settings(page)).configs for page in PAGES if words(page)[0] == "sweep"}
    out = tmp_path_factory.mktemp("swept")
    configs = [config for name, configs in wanted.items() if name != "engine" for config in configs]
    request = DiagnosisRequest(parts=["brightness"], settings={"brightness": {"exponent": 2.0}})
    diagnose = {config.hash: request for config in wanted["part"]}
    result = sweeps.run(configs, out, diagnose=diagnose, engine="processes", workers=2, device="cpu", quiet=True)
    assert result.failed == result.undiagnosed == []
    return wanted, Store(out)


@pytest.mark.quick
def test_the_guide_has_a_page_for_every_kind_and_links_it():
    guide = (DOCS / "extending.md").read_text(encoding="utf-8")
    assert {page.stem for page in PAGES} == set(re.findall(r"\(extending/(\w+)\.md\)", guide))


@pytest.mark.parametrize("page", [page for page in PAGES if page.stem not in ("study", "engine")], ids=lambda p: p.stem)
def test_a_sweep_on_worker_processes_knows_the_example(swept, page):
    wanted, store = swept
    configs = wanted[page.stem]
    assert configs
    for config in configs:
        assert store.is_finished(config)
        named = set() if page.stem in WITHOUT_CONFIGURATION else {page.stem}
        assert set(config.plugins) == set(store.facts(config.hash)["plugins"]) == named


def test_a_metric_of_a_plug_in_is_a_column(swept):
    wanted, store = swept
    run = store.load(wanted["metric"][0].hash)
    assert run.summary["ood_largest_error"] > 0
    assert "largest_error" in run.scores.columns


def test_a_part_of_a_plug_in_is_kept_with_the_run(swept):
    wanted, store = swept
    found = store.load(wanted["part"][0].hash).diagnosis["brightness"]
    assert len(found.tables["cells"]) == 36
    assert found.facts["settings"] == {"exponent": 2.0}


def test_an_engine_of_a_plug_in_runs_jobs(files, tmp_path):
    [page] = [page for page in PAGES if page.stem == "engine"]
    out = tmp_path / "runs"
    result = CliRunner().invoke(
        app, [*words(page)[:-1], str(files["engine"]), "--out", str(out), "--device", "cpu", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert len(json.loads(result.stdout)["finished"]) == 1


def test_a_study_of_a_plug_in_is_reproduced(files, tmp_path):
    assert list(discover())[-1] == "spread"
    [page] = [page for page in PAGES if page.stem == "study"]
    result = CliRunner().invoke(
        app, [*words(page)[:-1], str(files["study"]), "--out", str(tmp_path), "--engine", "in-process", "--json"]
    )
    assert result.exit_code == 0, result.output
    assert "X1_spread" in {Path(figure).stem for figure in json.loads(result.stdout)["figures"]}


def test_the_command_lists_plug_ins_with_their_hashes(files):
    result = CliRunner().invoke(app, ["plugins", "--plugin", str(files["scene"]), "--json"])
    [scene] = [plugin for plugin in json.loads(result.stdout) if plugin["name"] == "scene"]
    assert scene["kinds"] == ["scene ring"]
    assert len(scene["sha256"]) == 64
