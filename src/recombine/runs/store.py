"""The run store: a folder with one directory per run, named by the hash of its configuration.

    store = Store("runs")
    [run] = store.train([RunConfig.parse(["decoder.kind=mlp"])])     # a finished run is not trained again
    run.scores.summary(), run.model, run.history

docs/run-files.md names every file. All of them are JSON, CSV or safetensors: nothing in a store is ever executed.
`run.json` is written last, so a run directory without it is unfinished and can be resumed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

import recombine
from recombine.core import plugins
from recombine.core.errors import InputError, StoreError, TrainingDiverged
from recombine.core.factors import FactorSpace
from recombine.core.files import (
    file_digest,
    read_json,
    read_tensors,
    write_bytes,
    write_json,
    write_tensors,
    write_text,
)
from recombine.core.holdouts import Holdout
from recombine.core.lock import Lock
from recombine.core.plugins import PluginState
from recombine.core.task import Task
from recombine.models.decoders import Decoder, load
from recombine.runs.config import DEFAULTS, RunConfig
from recombine.runs.named import MODULE, NamedConfig, config_of, grid_of, holdout_of, outputs_of, saved_model
from recombine.runs.run import Run
from recombine.runs.train import train_seeds
from recombine.scoring.scores import Scores
from recombine.training.checkpoint import discard, steps_done

if TYPE_CHECKING:
    from recombine.diagnostics.diagnosis import Diagnosis
    from recombine.diagnostics.request import DiagnosisRequest

FORMAT = "recombine-run-2"
RUN_ID = re.compile(r"[0-9a-f]{16}")
OUTPUTS = "outputs.safetensors"  # of runs that were saved under a name
RESULTS = ("config.json", "model/config.json", "model/model.safetensors", "scores.csv", "history.jsonl",
           "losses.safetensors")  # fmt: skip
FACTS = ("run", "config", "summary", "steps", "loss_names", "described", "seconds", "finished", "device", "files")
NEW = ".new"  # where results are put together before they replace what was there
PASSING = re.compile(r"(next-)?checkpoint\.safetensors|\.lock.*|(.*/)?\..*\.part")  # files of a run at work, or killed
DIAGNOSIS = re.compile(r"diagnosis/[^/]+\.(json|csv|safetensors)")


@dataclass(frozen=True)
class StoredRun:
    """A finished run on disk; its parts are read, and their digests checked, when asked for."""

    path: Path
    config: RunConfig
    facts: dict[str, Any]  # run.json
    module: nn.Module | None = None  # that takes the weights of a run saved under a name
    given_task: Task | None = None  # of such a run, if its files cannot make it

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def summary(self) -> dict[str, float | None]:
        """id_mse, ood_mse, id_localization, ood_localization, …"""
        return self.facts["summary"]

    @property
    def name(self) -> str:
        """The name it was saved under; empty if it was trained from a configuration."""
        return self.config.name if isinstance(self.config, NamedConfig) else ""

    @cached_property
    def task(self) -> Task:
        return self.config.task() if self.given_task is None else self.given_task

    @cached_property
    def model(self) -> nn.Module:
        self._verified("model/config.json")
        weights = self._verified("model/model.safetensors")
        if self.config.decoder["kind"] != MODULE:
            return load(weights.parent)
        if self.module is None:
            raise StoreError(
                f"Run {self.name!r} is of a class of your own, {self.config.decoder['class']}. Bring it back with "
                f"recombine.load_run({self.name!r}, store={str(self.path.parent)!r}, module=…)."
            )
        try:
            self.module.load_state_dict(read_tensors(weights)[0])
        except RuntimeError as error:
            raise InputError(f"The module does not have the weights of run {self.name!r}: {error}", "module") from error
        return self.module.eval()

    @cached_property
    def holdout(self) -> Holdout:
        grid = self.facts.get("grid")
        return self.task.holdout if grid is None else holdout_of(grid, self.config.scene["factors"])

    @property
    def has_model(self) -> bool:
        """Whether the model can be made here."""
        return self.config.decoder["kind"] != MODULE or self.module is not None

    @property
    def described(self) -> dict[str, Any]:
        """What the decoder told about itself (`Decoder.describe`), such as the effective ranks of a renderer's maps."""
        return self.facts["described"]

    @cached_property
    def scores(self) -> Scores:
        """The scores of every cell; model and scene are loaded only for pictures."""
        space = FactorSpace.from_config(self.config.scene["factors"])
        scores = Scores.from_csv(self._verified("scores.csv"), space)
        scores.source = lambda: (self.model, self.task)
        return scores

    @cached_property
    def history(self) -> list[dict[str, float | int]]:
        return [json.loads(line) for line in self._verified("history.jsonl").read_text().splitlines()]

    @cached_property
    def losses(self) -> Tensor:
        """Loss of every step; the columns are named in `facts["loss_names"]`."""
        return read_tensors(self._verified("losses.safetensors"))[0]["losses"]

    def diagnose(
        self, request: DiagnosisRequest | None = None, *, keep: bool | None = True, **options: Any
    ) -> Diagnosis:
        """Diagnose the model and keep the result in `diagnosis/`.

        Parts kept from an earlier diagnosis of the same weights stay if its shared settings (layers, seed) were the
        same. If they were not, it is replaced by a result that has all its parts, and left alone (the result says so)
        by one that lacks some.

        Args:
            request: What to compute.
            keep: Whether to keep the result with the run; None for only if its folder can be written to.
            options: As for `recombine.diagnose`: fields of the request, and `progress`.
        """
        from recombine.diagnostics.diagnose import diagnose

        writable = os.access(self.path, os.W_OK | os.X_OK)
        if keep and not writable:
            raise StoreError(f"{self.path} is not writable, so a diagnosis cannot be kept there. Save it elsewhere.")
        if self.has_model:
            task = self.task
            model, encode = self.model, task.inputs
            target = task.targets if task.inverse else task.scene  # the scene also says how its images are shown
        else:  # from what it gave
            saved, _ = read_tensors(self._verified(OUTPUTS))
            (model, target), encode = saved_model(saved, self.holdout.space), None
        found = diagnose(model, self.holdout.space, encode, self.holdout, target=target, request=request, **options)
        found = dataclasses.replace(found, source=self.source)
        if not writable or keep is False:
            return found
        try:
            kept = self.load_diagnosis(partial=True)
        except StoreError:
            kept = None  # none yet, or nothing that could be read or is about these weights
        merged = found if kept is None else found.with_parts_of(kept)
        if merged is None:
            return found.noted(
                f"not kept with run {self.id}, whose diagnosis has other settings and parts that this one lacks: save "
                f"it elsewhere (--save FOLDER), or compute all parts with the new settings"
            )
        merged.save(self.path / "diagnosis")
        return found

    @property
    def source(self) -> dict[str, str]:
        """What a diagnosis of this run says it is of."""
        return {"run": self.id, "model": self.facts["files"]["model/model.safetensors"]}

    def lacks(self, request: DiagnosisRequest) -> tuple[str, ...]:
        """Which parts of a request are not kept with the run yet; empty if there is nothing left to do."""
        from recombine.diagnostics.diagnosis_files import lacking_parts

        return lacking_parts(self.path / "diagnosis", request, self.source)

    @property
    def diagnosis(self) -> Diagnosis:
        """The diagnosis kept with the run; an error if there is none, or if it is of other weights."""
        return self.load_diagnosis()

    def load_diagnosis(self, *, partial: bool = False) -> Diagnosis:
        """As `diagnosis`; with `partial` a damaged part is marked as missing instead of refusing all."""
        from recombine.diagnostics.diagnosis import Diagnosis

        folder = self.path / "diagnosis"
        if not (folder / "diagnosis.json").is_file():
            command = f"recombine diagnose {self.id} --out {self.path.parent}"
            raise StoreError(f"Run {self.id} has no diagnosis yet. `{command}` makes one.")
        found = Diagnosis.load(folder, partial=partial)
        if found.source.get("model") != self.facts["files"]["model/model.safetensors"]:
            raise StoreError(f"{folder} is about other weights: the run was trained again. Diagnose it again.")
        return found

    def verify(self) -> None:
        """Raise if any file of the run is missing or was changed."""
        for name in (*RESULTS, *([OUTPUTS] if self.name else [])):
            self._verified(name)

    def _verified(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file():
            raise StoreError(f"{path} is missing: the run is damaged. Train it again with --force.")
        if file_digest(path) != self.facts["files"].get(name):
            raise StoreError(f"{path} was changed after the run finished. Train it again with --force.")
        return path


def run_digest(facts: dict[str, Any]) -> str:
    """What run.json says of itself, so that changes show."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _parsed(content: bytes, what: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise StoreError(f"{what} cannot be read as JSON: {error}.") from error


def _check_facts(facts: Any, what: str) -> dict[str, Any]:
    """The facts in a run.json, without their digest; an error if they are another version's or were changed."""
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        found = facts.get("format") if isinstance(facts, dict) else type(facts).__name__
        raise StoreError(f"{what} is no run of this version: format {found!r}, expected {FORMAT!r}.")
    if facts.pop("digest", None) != run_digest(facts):
        raise StoreError(f"{what} was changed after the run finished. Train it again with --force.")
    lacking = [key for key in FACTS if key not in facts]
    if lacking:
        raise StoreError(f"{what} lacks {', '.join(lacking)}: it is damaged. Train it again with --force.")
    return facts


def _is_result(name: str) -> bool:
    """Whether a finished run, or its diagnosis, has a file of this name."""
    return name.removeprefix(f"{NEW}/") in (*RESULTS, OUTPUTS, "run.json") or DIAGNOSIS.fullmatch(name) is not None


def _write_model(model: nn.Module, folder: Path) -> None:
    """A decoder as `save_pretrained` writes it; of any other module the weights and the name of its class."""
    if isinstance(model, Decoder):
        model.save_pretrained(folder)
        return
    write_tensors(folder / "model.safetensors", {k: v.detach().clone() for k, v in model.state_dict().items()})
    write_json(folder / "config.json", {"kind": MODULE, "class": type(model).__name__})


def load_run(
    name: str, store: str | Path = "runs", *, module: nn.Module | None = None, task: Task | None = None
) -> StoredRun:
    """A stored run by its name, its id or the beginning of its id.

    Args:
        name: See `Run.save`; of several seeds of one name the id is needed.
        store: Its folder.
        module: An object of the class that was saved, into which the weights are loaded. Without it the run has its
            scores, history, outputs and diagnosis.
        task: The task, if it has parts of your own that no configuration makes.
    """
    where = Store(store)
    found = [row["run"] for row in where.list() if row.get("name") == name]
    if len(found) > 1:
        raise InputError(f"{len(found)} runs are named {name!r}: give one of their ids, {', '.join(found)}.", "name")
    stored = where.load(found[0] if found else name)
    return dataclasses.replace(stored, module=module, given_task=task)


class Store:
    """A folder of runs."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        try:
            is_file = self.root.exists() and not self.root.is_dir()
        except OSError as error:
            raise StoreError(f"{self.root} cannot be a run store: {error.strerror}. Choose another --out.") from error
        if is_file:
            raise StoreError(f"{self.root} is a file; a run store is a folder. Choose another --out.")

    def check_place(self) -> None:
        """Raise if the folder could not be made or written to; nothing is made."""
        nearest = next(folder for folder in (self.root, *self.root.absolute().parents) if folder.exists())
        if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
            what = "not writable" if nearest.is_dir() else "a file"
            raise StoreError(f"{self.root} cannot be a run store: {nearest} is {what}. Choose another --out.")

    def train(
        self,
        configs: Sequence[RunConfig],
        *,
        force: bool = False,
        device: str = "auto",
        checkpoint_seconds: float = 60.0,
        progress: bool | None = None,
        begun: list[str] | None = None,
    ) -> list[StoredRun]:
        """Train every configuration that is not finished yet and return all runs, in the order given.

        Configurations that differ only in their seed train together where that is faster. A run that was killed
        goes on from its last checkpoint. If a seed diverges the others are still finished and kept. To a list given as
        `begun` the runs are added whose training is begun here; all others were finished already.
        """
        groups: dict[str, list[RunConfig]] = {}
        for config in dict.fromkeys(configs):
            if force or not self.is_finished(config):
                groups.setdefault(config.seedless_hash, []).append(config)
        for group in groups.values():
            group[0].check()
        for group in groups.values():
            with contextlib.ExitStack() as stack:
                locks = []
                for config in group:
                    locks.append(self.lock(config))
                    stack.callback(locks[-1].release)
                # someone else may have finished some of them before we had the locks
                todo = {c: lock for c, lock in zip(group, locks) if force or not self.is_finished(c)}
                if todo:
                    if begun is not None:
                        begun += [config.hash for config in todo]
                    self._train_group(todo, force, device, checkpoint_seconds, progress)
        return [self.load(config.hash) for config in configs]

    def _train_group(
        self, locks: dict[RunConfig, Lock], force: bool, device: str, checkpoint_seconds: float, progress: bool | None
    ) -> None:
        configs = list(locks)
        task = configs[0].task()
        model = configs[0].model(task)
        for config in configs:
            write_json(self.directory(config) / "config.json", config.to_dict())
            if force and not self._is_being_redone(config):
                discard(self._checkpoint(config))
        by_seed = {config.seed: config for config in configs}
        runs: Sequence[Run] = ()
        try:
            runs = train_seeds(
                model,
                task,
                by_seed,
                training=configs[0].recipe(),
                device=device,
                checkpoints=[self._checkpoint(config) for config in configs],
                checkpoint_seconds=checkpoint_seconds,
                progress=progress,
            )
        except TrainingDiverged as error:
            runs = error.finished
            raise
        finally:
            for run in runs:
                locks[by_seed[run.seed]].check()
                self._write(by_seed[run.seed], run)

    def _is_being_redone(self, config: RunConfig) -> bool:
        """Whether there is a checkpoint beside a finished run: of an attempt to train it again that was stopped."""
        try:
            return self.is_finished(config) and steps_done(self._checkpoint(config)) is not None
        except StoreError:
            return False

    def save(self, run: Run, name: str, *, replace: bool = False) -> StoredRun:
        """Keep a run of any model under a name, see `Run.save`."""
        config = config_of(run, name)
        lock = self.lock(config)
        try:
            if self.is_finished(config) and not replace:
                raise StoreError(
                    f"There is a run named {name!r} with seed {run.seed} in {self.root}. Choose another name, or "
                    "replace it with replace=True."
                )
            self._write(config, run)
            stored = self.load(config.hash)
            if run.diagnosis is not None:
                dataclasses.replace(run.diagnosis, source=stored.source).save(stored.path / "diagnosis")
            return stored
        finally:
            lock.release()

    def _write(self, config: RunConfig, run: Run) -> None:
        """Write a finished run; run.json comes last and makes it one."""
        with self._staging(config) as new:
            write_json(new / "config.json", config.to_dict())
            _write_model(run.model, new / "model")
            if isinstance(config, NamedConfig):
                write_tensors(new / OUTPUTS, outputs_of(run.model, run.task))
            write_text(new / "scores.csv", run.scores.to_csv())
            write_text(new / "history.jsonl", "".join(json.dumps(row, allow_nan=False) + "\n" for row in run.history))
            write_tensors(new / "losses.safetensors", {"losses": run.losses})
            facts = {
                "format": FORMAT,
                "run": config.hash,
                "config": config.to_dict(),
                "summary": run.scores.summary().to_json(),
                "steps": run.steps,
                "stopped_early": run.stopped_early,
                "loss_names": run.loss_names,
                "described": run.model.describe(run.task.space.names) if isinstance(run.model, Decoder) else {},
                "seconds": round(run.seconds, 3),
                "finished": datetime.now(UTC).isoformat(timespec="seconds"),
                "device": str(next((p.device for p in run.model.parameters()), "cpu")),
                "threads": torch.get_num_threads(),
                "versions": {
                    "recombine": recombine.__version__,
                    "torch": torch.__version__,
                    "python": platform.python_version(),
                },
                "plugins": config.plugins,
                "files": {name: file_digest(new / name) for name in (*RESULTS, OUTPUTS) if (new / name).exists()},
            }
            if isinstance(config, NamedConfig):
                facts |= {"name": config.name, "grid": grid_of(run.task.holdout)}
            write_json(new / "run.json", {**facts, "digest": run_digest(facts)})

    @contextlib.contextmanager
    def _staging(self, config: RunConfig) -> Iterator[Path]:
        """An empty folder for new results, which take the place of the old ones when all of them are written.

        So a disk that is full leaves a finished run as it was. run.json goes first and comes last.
        """
        folder = self.directory(config)
        new = folder / NEW
        shutil.rmtree(new, ignore_errors=True)  # what a kill left
        try:
            yield new
            (folder / "run.json").unlink(missing_ok=True)
            for name in (*RESULTS, OUTPUTS, "run.json"):
                if name != OUTPUTS or (new / name).exists():
                    (folder / name).parent.mkdir(exist_ok=True)
                    os.replace(new / name, folder / name)
        finally:
            shutil.rmtree(new, ignore_errors=True)
        discard(self._checkpoint(config))
        for left in (*folder.glob(".*.part"), *folder.glob("model/.*.part")):  # what kills left of earlier attempts
            if not left.name.startswith(".lock"):
                left.unlink(missing_ok=True)

    def add(self, config: RunConfig, files: Mapping[str, bytes], lock: Lock) -> None:
        """Keep a run that was finished elsewhere, given as the content of its files; the caller holds its lock.

        It is data from another machine: only the files of a run are taken, and only if they agree with their digests.
        """
        if set(files) != {*RESULTS, "run.json"}:
            raise StoreError(f"What came back for run {config.hash} is not a run's files: {', '.join(sorted(files))}.")
        facts = _check_facts(_parsed(files["run.json"], f"run.json of run {config.hash}"), f"run {config.hash}")
        digests = {name: hashlib.sha256(files[name]).hexdigest() for name in RESULTS}
        if facts.get("run") != config.hash or facts.get("files") != digests:
            raise StoreError(f"What came back for run {config.hash} is damaged, or another run.")
        lock.check()
        with self._staging(config) as new:
            for name, content in files.items():
                write_bytes(new / name, content)

    def files(self, config: RunConfig) -> dict[str, bytes]:
        """The content of a finished run's files, for `add`."""
        return {name: (self.directory(config) / name).read_bytes() for name in (*RESULTS, "run.json")}

    def directory(self, config: RunConfig) -> Path:
        return self.root / config.hash

    def _checkpoint(self, config: RunConfig) -> Path:
        return self.directory(config) / "checkpoint.safetensors"

    def is_finished(self, config: RunConfig) -> bool:
        return (self.directory(config) / "run.json").is_file()

    def damage(self, config: RunConfig) -> str | None:
        """What is wrong with a finished run: a file that is missing, unreadable or was changed. None if all is well."""
        try:
            self.load(config.hash).verify()
        except InputError as error:
            return str(error)
        return None

    def reopen(self, config: RunConfig) -> None:
        """Take a run as unfinished, so that it is trained again from the start."""
        lock = self.lock(config)
        try:
            (self.directory(config) / "run.json").unlink(missing_ok=True)
            discard(self._checkpoint(config))
        finally:
            lock.release()

    def load(self, run: str, *, without_plugins: bool = False) -> StoredRun:
        """A finished run by its id or the beginning of it.

        Args:
            run: Its id.
            without_plugins: Also load a run whose plug-ins are missing. What is stored can be read; what its
                configuration describes, such as its task and model, cannot be built.
        """
        path = self.root / self.resolve(run)
        if not (path / "run.json").is_file():
            raise StoreError(
                f"Run {path.name} is not finished ({self._progress(path)}). Run the same `recombine train` command "
                "again to go on with it."
            )
        facts = self.facts(path.name)
        needed = plugins.recorded(facts)
        if without_plugins and PluginState.MISSING in plugins.states(needed).values() and facts["run"] == path.name:
            return StoredRun(path, RunConfig(**{name: facts["config"].get(name) for name in DEFAULTS}), facts)
        plugins.require_present(needed, f"Run {path.name}")
        given = read_json(path / "config.json")
        config = NamedConfig(**given, name=facts["name"]) if "name" in facts else RunConfig.from_stored(given)
        if config.hash != path.name:
            raise StoreError(
                f"{path / 'config.json'} does not belong to its directory: it describes run {config.hash}. "
                "It was changed, or written by another version. Train it again."
            )
        return StoredRun(path, config, facts)

    def facts(self, run: str) -> dict[str, Any]:
        """A finished run's run.json, as it was written."""
        path = self.root / self.resolve(run) / "run.json"
        return _check_facts(read_json(path), str(path))

    def resolve(self, run: str) -> str:
        """The full id of a run from its beginning; anything that is no such beginning is an error."""
        if not re.fullmatch(r"[0-9a-f]{1,16}", run):
            raise InputError(f"A run is named by up to 16 hexadecimal digits. Got {run!r}; see `recombine runs list`.")
        if RUN_ID.fullmatch(run) and (self.root / run).is_dir():
            return run
        found = [name for name in self.ids() if name.startswith(run)]
        if len(found) != 1:
            what = f"{len(found)} runs begin with" if found else "There is no run"
            raise InputError(f"{what} {run!r} in {self.root}; see `recombine runs list --out {self.root}`.")
        return found[0]

    def ids(self) -> list[str]:
        """All runs, finished or not."""
        if not self.root.is_dir():
            return []
        with os.scandir(self.root) as entries:
            return sorted(entry.name for entry in entries if RUN_ID.fullmatch(entry.name) and entry.is_dir())

    def list(self) -> list[dict[str, Any]]:
        """A row per run: id, status, configuration and summary. Damaged runs are listed as such."""
        return [self._row(name) for name in self.ids()]

    def _row(self, name: str) -> dict[str, Any]:
        try:
            try:  # most runs are finished, and there may be thousands: look once
                content = Path(f"{self.root}/{name}/run.json").read_bytes()
            except FileNotFoundError:
                path = self.root / name
                config = RunConfig.from_stored(read_json(path / "config.json")).to_dict()
                return {"run": name, "status": self._progress(path), "config": config}
            except OSError as error:
                raise StoreError(f"{self.root / name / 'run.json'} cannot be read: {error.strerror}.") from error
            what = f"{self.root}/{name}/run.json"
            facts = _check_facts(_parsed(content, what), what)
            named = {"name": facts["name"]} if "name" in facts else {}
            return {"run": name, **named, "status": "finished", "config": facts["config"], **facts["summary"]}
        except InputError as error:
            return {"run": name, "status": f"damaged: {error}", "config": {}}

    def status(self, config: RunConfig) -> str:
        """What there is of a run: finished, damaged, not started, or at which step it stopped."""
        try:
            if not self.is_finished(config):
                return self._progress(self.directory(config))
            self.load(config.hash).verify()
        except InputError as error:
            return f"damaged: {error}"
        return "finished"

    def _progress(self, path: Path) -> str:
        steps = steps_done(path / "checkpoint.safetensors")
        return "not started" if steps is None else f"stopped at step {steps}"

    def check_removable(self, run: str) -> Path:
        """The directory of a run, finished or not; an error if it may hold anything but a run."""
        path = self.root / self.resolve(run)
        if path.is_symlink():
            raise StoreError(f"{path} is a link, so it is not deleted. Delete it by hand.")
        files = [str(file.relative_to(path)) for file in path.rglob("*") if file.is_symlink() or not file.is_dir()]
        lasting = [name for name in files if not PASSING.fullmatch(name)]
        foreign = sorted(name for name in lasting if not _is_result(name))
        if foreign:
            raise StoreError(f"{path} holds {', '.join(foreign)}, which no run writes, so it is not deleted.")
        if lasting and not self._may_be_ours(path):
            raise StoreError(f"{path} has no config.json of a run, so it is not deleted: it may not be a run.")
        return path

    def _may_be_ours(self, path: Path) -> bool:
        """Whether config.json describes a run, or is too damaged to tell."""
        try:
            given = read_json(path / "config.json")
        except StoreError:
            return (path / "config.json").is_file()
        return isinstance(given, dict) and set(given) <= set(DEFAULTS)

    def remove(self, run: str) -> Path:
        """Delete a run, finished or not. Directories that may hold anything else are not touched."""
        path = self.check_removable(run)
        with Lock(path / ".lock"):
            try:
                shutil.rmtree(path)
            except OSError as error:
                raise StoreError(f"{error.filename} cannot be deleted: {error.strerror}.") from error
        return path

    def lock(self, config: RunConfig) -> Lock:
        """A run's lock, taken: only one process works on a run. LockHeld if another has it."""
        folder = self.directory(config)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"Cannot create {folder}: {error.strerror}. Choose another --out.") from error
        lock = Lock(folder / ".lock")
        lock.acquire()
        return lock
