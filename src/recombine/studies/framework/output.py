"""The output folder of a reproduction: figures, tables, arrays, verdicts, and the runs behind them.

    DIR/reproduce.json        the profile, and for every call: command, seeds, start, end, trained runs, time per study
    DIR/claims.json           the verdicts
    DIR/tables/<study>.json   the runs behind the rows, and the content of the other files
    DIR/tables/<study>-<table>.csv, DIR/arrays/<study>.safetensors
    DIR/figures/R05_….png and .pdf
    DIR/runs/                 the store

Saved rows are reused while the runs, the profile, the study's version, the edition of the statistics and the training
code stay the same.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recombine.core.errors import InputError, StoreError
from recombine.core.files import file_digest, inside, read_plain_json, write_json
from recombine.diagnostics.diagnosis_files import free_path, read_part, write_part
from recombine.diagnostics.findings import PartResult
from recombine.plotting.writing import write_figure
from recombine.runs.config import RunConfig
from recombine.runs.store import Store
from recombine.studies.framework.study import Study
from recombine.studies.framework.training_code import training_code

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMAT = "recombine-reproduce-2"
EDITION = 2  # edition of the statistics; rows of different editions are not mixed
DPI = 110
MOST_NAME = 40  # maximum number of characters of a claim's name


class Output:
    """An output folder.

    Args:
        root: The folder. It is created on the first write.
        profile: Name of the profile. A folder with results of another profile is rejected.

    Raises:
        InputError: If `root` is a file, or contains anything other than a reproduction with this profile.
    """

    def __init__(self, root: Path, profile: str) -> None:
        self.root, self.profile = Path(root), profile
        self.store = Store(self.root / "runs")
        for name in ("tables", "arrays", "figures"):
            self._at(name)  # raises before the training if it is a link
        try:
            if self.root.exists() and not self.root.is_dir():
                raise InputError(f"{self.root} is a file, but --out must be a folder. Choose another --out.")
            if not self.root.exists() or not any(self.root.iterdir()):
                return
        except OSError as error:
            raise InputError(f"Cannot use {self.root}: {error.strerror}. Choose another --out.") from error
        if not self.main.is_file() or self.about().get("format") != FORMAT:
            raise InputError(
                f"{self.root} does not contain a reproduction (it has no valid reproduce.json). Choose another --out "
                "or an empty folder."
            )
        found = self.about().get("profile")
        if found != profile:
            raise InputError(
                f"{self.root} contains results of the profile {found!r}. Choose another --out for {profile!r}."
            )

    def _at(self, *names: str) -> Path:
        """A path inside the folder, to be used immediately. Raises if a link leads elsewhere."""
        return inside(self.root, *names)

    @property
    def main(self) -> Path:
        """Path of reproduce.json."""
        return self._at("reproduce.json")

    def about(self) -> dict[str, Any]:
        """The content of reproduce.json; empty if there is none yet."""
        found = read_plain_json(self.main) if self.main.is_file() else {}
        if not isinstance(found, dict):
            return {}
        calls = found.get("calls", [])
        if not isinstance(calls, list) or not all(isinstance(call, dict) and "trained" in call for call in calls):
            raise StoreError(f"{self.main} is damaged: its list of calls is invalid. Choose another --out.")
        return found

    def write_about(self, facts: Mapping[str, Any]) -> None:
        """Write reproduce.json."""
        write_json(self.main, {"format": FORMAT, "profile": self.profile, **facts})

    def save(self, study: Study, part: PartResult, runs: Mapping[str, str], seeds: Iterable[int]) -> None:
        """Write a study's rows. The JSON file that identifies their runs is written last."""
        main = self._sidecar(study.key)
        free_path(main).unlink(missing_ok=True)
        entry, files = write_part(part, self._at("tables"), self._at("arrays"))
        digests = {str(path.relative_to(self.root)): file_digest(path) for path in files}
        write_json(main, {"format": FORMAT, **self._of(study, runs, seeds), "part": entry, "files": digests})

    def saved(self, study: Study, runs: Mapping[str, str], seeds: Iterable[int]) -> PartResult | None:
        """A study's saved rows; None if they belong to other runs or if a file was changed."""
        try:
            content = read_plain_json(self._sidecar(study.key))
            wanted = self._of(study, runs, seeds)
            if not isinstance(content, dict) or any(content.get(key) != value for key, value in wanted.items()):
                return None
            return self._read(study.key, content)
        except StoreError:
            return None

    def load(self, key: str, *, arrays: bool = True) -> PartResult:
        """A study's saved rows, whichever runs they belong to. Raises if they are missing or were changed.

        Without `arrays`, only the tables are read, which is all that verdicts need.
        """
        return self._read(key, read_plain_json(self._sidecar(key)), arrays=arrays)

    def _read(self, key: str, content: Any, *, arrays: bool = True) -> PartResult:
        try:
            part, files = content["part"], content["files"]
            if not arrays:
                part = {**part, "arrays": []}
                files = {name: digest for name, digest in files.items() if name.startswith("tables/")}
            unlisted = [name for name in _files_of(key, part) if name not in files]
            if unlisted:
                raise StoreError(f"{self._sidecar(key)} does not list {unlisted[0]!r}. Run the command again.")
            for name, digest in files.items():
                path = self.root / name
                if not path.resolve().is_relative_to(self.root.resolve()) or not path.is_file():
                    raise StoreError(f"{path} is missing. Run the same `recombine reproduce` command again.")
                if file_digest(path) != digest:
                    raise StoreError(f"{path} was changed. Run the same `recombine reproduce` command again.")
            return read_part(key, part, self._at("tables"), self._at("arrays"))
        except (KeyError, TypeError, AttributeError, OSError) as error:
            raise StoreError(f"{self._sidecar(key)} cannot be read: {error!r}. Run the command again.") from error

    def weights_of(self, configs: Iterable[RunConfig]) -> dict[str, str]:
        """Map finished runs to digests of their weights."""
        return {c.hash: self.store.facts(c.hash)["files"]["model/model.safetensors"] for c in configs}

    def studies(self) -> list[str]:
        """The studies that have saved rows."""
        return sorted(path.stem for path in (self.root / "tables").glob("*.json"))

    def seeds_of(self, key: str) -> list[int]:
        """The seeds of a study's saved rows; none if they cannot be read."""
        try:
            return [int(seed) for seed in read_plain_json(self._sidecar(key))["seeds"]]
        except (KeyError, TypeError, ValueError, OverflowError):  # StoreError is a ValueError
            return []

    def runs_of(self, key: str) -> list[str]:
        """Ids of the runs behind a study's saved rows; none if they cannot be read."""
        try:
            return [str(run) for run in read_plain_json(self._sidecar(key))["runs"]]
        except (KeyError, TypeError, StoreError):
            return []

    def made_by(self, key: str) -> tuple[int, str]:
        """The edition of the statistics and the training code of a study's saved rows."""
        content = read_plain_json(self._sidecar(key))
        return int(content["edition"]), str(content["training_code"])

    def _of(self, study: Study, runs: Mapping[str, str], seeds: Iterable[int]) -> dict[str, Any]:
        return {"study": study.key, "version": study.version, "profile": self.profile, "seeds": list(seeds),
                "runs": dict(sorted(runs.items())), "edition": EDITION, "training_code": training_code()}  # fmt: skip

    def _sidecar(self, key: str) -> Path:
        return self._at("tables", f"{key}.json")

    def draw(self, study: Study, part: PartResult) -> list[Path]:
        """Draw every figure of a study as PNG and PDF. Figures are kept if neither rows nor code changed."""
        main = self._at("figures", f"{study.key}.json")
        of = {"rows": file_digest(self._sidecar(study.key)), "code": _drawing_code()}
        with contextlib.suppress(StoreError):  # missing or unreadable: draw again
            found = read_plain_json(main)
            names = found.get("files") if isinstance(found, dict) else None
            if isinstance(names, list) and found == {**of, "files": names}:
                drawn = [self._at("figures", Path(str(name)).name) for name in names]
                if all(path.is_file() for path in drawn):
                    return drawn
        written = self._write_figures(study.plot(part))
        write_json(free_path(main), {**of, "files": [path.name for path in written]})
        return written

    def _write_figures(self, figures: Mapping[str, Figure]) -> list[Path]:
        """Write files without dates, so that equal figures give equal files."""
        written = []
        for name, figure in figures.items():
            formats: dict[str, dict[str, Any]] = {
                "png": {"dpi": DPI},
                "pdf": {"dpi": None, "metadata": {"CreationDate": None}},
            }
            for ending, options in formats.items():
                written.append(self._at("figures") / f"{name}.{ending}")
                write_figure(figure, free_path(written[-1]), **options)
                figure.set_layout_engine("none")  # already laid out; repeating it would take most of the time
        return written

    def claims(self) -> list[dict[str, Any]]:
        """The content of claims.json; empty if it is missing or unreadable, so that all verdicts are computed again."""
        try:
            found = read_plain_json(self.root / "claims.json")
        except StoreError:
            found = []
        rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
        return [row for row in rows if isinstance(row.get("claim"), str) and len(row["claim"]) <= MOST_NAME]

    def write_claims(self, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Update claims.json with these verdicts, keep those of other claims, and return all of them."""
        from recombine.studies.framework.study import natural

        together = {row["claim"]: dict(row) for row in [*self.claims(), *rows]}
        ordered = sorted(together.values(), key=lambda row: natural(row["claim"]))
        write_json(free_path(self.root / "claims.json"), ordered)
        return ordered


def _files_of(key: str, part: Mapping[str, Any]) -> list[str]:
    """The files that `read_part` reads."""
    return [f"tables/{key}-{table}.csv" for table in part["tables"]] + [f"arrays/{key}.safetensors"] * bool(
        part["arrays"]
    )


def _drawing_code() -> str:
    """Digest of the code that draws figures, over all studies, because they share much of it."""
    from recombine.plotting import style as figures

    total = hashlib.sha256()
    for source in (Path(figures.__file__), *sorted(Path(__file__).parents[1].rglob("*.py"))):
        total.update(source.read_bytes())
    return total.hexdigest()
