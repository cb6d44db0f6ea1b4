"""Tables of results: rows, groups, files and quick plots."""

import csv
import io
import json
import shutil
import sys

import matplotlib
import numpy as np
import pytest

from recombine import sweeps
from recombine.core.errors import InputError
from recombine.runs.store import Store
from recombine.scoring.intervals import bootstrap_interval
from recombine.sweeps.table import Table

TINY = ["scene.factors.x=8", "scene.factors.y=8", "holdout.lo=2", "holdout.hi=5", "decoder.width=8",
        "training.steps=5"]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out = tmp_path_factory.mktemp("table")
    wanted = sweeps.parse([*TINY, "decoder.kind=mlp", "decoder.depth=10,2", "seed=0..2"]).configs
    other = sweeps.parse([*TINY, "decoder.kind=cnn", "decoder.depth=2", "training.terms={}"]).configs
    sweeps.run([*reversed(wanted), *other], out, engine="in-process", device="cpu", quiet=True)
    return out


def test_a_row_per_run_in_an_order_of_settings(folder):
    table = sweeps.table(folder)
    assert [(r["decoder.kind"], r["decoder.depth"], r["seed"]) for r in table.rows] == [
        ("cnn", 2, 0), *(("mlp", d, s) for d in (2, 10) for s in range(3)),
    ]  # fmt: skip
    assert table.settings[-1] == "seed"
    assert "decoder.depth" in table.settings
    assert "scene.sigma" not in table.settings  # the same in all runs
    assert "scene.sigma" in sweeps.table(folder, all_settings=True).settings
    run = Store(folder).load(table.rows[1]["run"])
    assert {name: table.rows[1][name] for name in run.summary} == run.summary


def test_csv_reads_back_exactly_and_holds_no_times(folder):
    table = sweeps.table(folder)
    rows = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert [float(r["ood_mse"]) for r in rows] == [r["ood_mse"] for r in table.rows]
    assert not {"seconds", "finished", "device"} & set(rows[0])


def test_pandas_and_parquet(folder, tmp_path):
    import pandas

    table = sweeps.table(folder)
    assert list(table.to_pandas().columns) == table.columns
    table.write(tmp_path / "t.parquet")
    back = pandas.read_parquet(tmp_path / "t.parquet")
    assert back["ood_mse"].tolist() == [r["ood_mse"] for r in table.rows]
    table.write(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == table.to_csv()
    with pytest.raises(InputError, match=r"\.csv or \.parquet"):
        table.write(tmp_path / "t.xlsx")


def test_parquet_without_pyarrow_says_what_to_install(folder, tmp_path, monkeypatch):
    for name in ("pyarrow", "fastparquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=r"recombine\[parquet\]"):
        sweeps.table(folder).write(tmp_path / "t.parquet")
    assert not (tmp_path / "t.parquet").exists()


def test_groups_are_means_over_seeds_with_intervals(folder):
    table = sweeps.table(folder)
    grouped = table.grouped()
    row = grouped.rows[1]
    values = np.array([r["ood_mse"] for r in table.rows[1:4]])
    assert (row["decoder.kind"], row["decoder.depth"], row["seeds"]) == ("mlp", 2, 3)
    assert row["ood_mse"] == pytest.approx(values.mean())
    assert (row["ood_mse_low"], row["ood_mse_high"]) == bootstrap_interval(values)
    assert grouped.rows[0]["seeds"] == 1
    assert grouped.rows[0]["ood_mse_low"] is None  # one seed has no interval
    assert "run" not in grouped.columns


def test_a_quick_plot_has_a_point_per_run_and_a_line_per_group(folder):
    matplotlib.use("Agg")
    ax = sweeps.table(folder).plot("decoder.depth", "ood_mse", by="decoder.kind")
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_yscale()) == ("decoder.depth", "ood_mse", "log")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["cnn", "mlp"]
    assert sum(len(points.get_offsets()) for points in ax.collections if hasattr(points, "get_sizes")) == 7
    words = sweeps.table(folder).plot("decoder.kind", "ood_localization")
    assert [label.get_text() for label in words.get_xticklabels()] == ["cnn", "mlp"]
    with pytest.raises(InputError, match="There is no column 'depth'"):
        sweeps.table(folder).plot("depth")
    with pytest.raises(InputError, match="no run is finished"):
        Table(["seed"], ["ood_mse"], [], {}).plot("seed")


def test_damaged_runs_are_left_out_and_named(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    run = sweeps.table(folder).rows[0]["run"]
    facts = json.loads((tmp_path / "copy" / run / "run.json").read_text())
    (tmp_path / "copy" / run / "run.json").write_text(json.dumps({**facts, "summary": {"ood_mse": 0.0}}))
    table = sweeps.table(tmp_path / "copy")
    assert len(table.rows) == 6
    assert set(table.skipped) == {run}


def test_settings_that_are_structures_and_texts_that_look_like_formulas():
    rows = [{"run": "0", "a": {"y": 1, "x": [2]}, "b": "=1+1", "seed": 0, "m": None}]
    assert Table(["a", "b", "seed"], ["m"], rows, {}).to_csv().splitlines()[1] == (
        '0,"{""x"": [2], ""y"": 1}",\'=1+1,0,'
    )


def test_an_empty_store_gives_an_empty_table(tmp_path):
    assert sweeps.table(tmp_path).to_csv() == "seed\n"
