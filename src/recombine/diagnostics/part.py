"""A part of a diagnosis: one question about a model, in one module.

    @PARTS.register
    class Brightness(Part):
        name = "brightness"
        tables = {"cells": {"cell": "Number of the cell.", "brightness": "Mean of its output."}}

        def compute(self, inputs):
            means = inputs.outputs.flatten(1).mean(1)
            rows = [{"cell": cell, "brightness": float(mean)} for cell, mean in enumerate(means)]
            return PartResult(self.name, {"cells": rows})

Built-in parts are the modules of `recombine.diagnostics.parts` and are found automatically; plug-ins register theirs.
Both appear in `diagnose`, in the files, in summaries, on the command line and on the page. A part with its own panel on
the page implements `panel` and has a script in `recombine/report/static/panels`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from recombine.core.catalogue import Catalogue
from recombine.core.errors import InputError
from recombine.core.registry import nearest
from recombine.diagnostics.findings import PartResult
from recombine.diagnostics.page_content import LayerColumn, Packer, PageContent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from recombine.diagnostics.diagnosis import Diagnosis
    from recombine.diagnostics.inputs import DiagnosisInputs
    from recombine.diagnostics.layer_activations import LayerActivations
    from recombine.diagnostics.request import DiagnosisRequest

Columns = Mapping[str, str]  # column → its meaning in a line; "scale_*" documents a family of columns


class Need(StrEnum):
    """Requirements of a part. A part whose requirements are not met is marked as missing and not computed."""

    TRUTH = "truth"
    HOLDOUT = "holdout"
    LAYERS = "layers"  # activations of inner layers over the grid
    DERIVATIVES = "derivatives"  # of activations by factors, exact or by differences


class Part(ABC):
    """One part of a diagnosis. A subclass sets the class attributes and implements `compute`.

    Attributes:
        name: Its name in requests, files and on the command line.
        order: Its position among the parts; those of plug-ins come last.
        on_request: Whether it is computed only if it is named.
        needs: Its requirements.
        tables: Table → column → meaning, the main table first.
        reads: Field of the request that only this part reads → the fact in which the part records it.
        settings: Settings of its own → default values (JSON). `DiagnosisRequest.settings` gives others, and the result
            records them.
        layer_columns: Columns that it adds to the overview by layer.
        on_page: Whether `recombine report --diagnose` computes it for the page.
        panel_items: Largest number of items (units, cells) that its panel on the page shows; 0 if it has no panel.
    """

    name: ClassVar[str]
    order: ClassVar[int] = 100
    on_request: ClassVar[bool] = False
    needs: ClassVar[frozenset[Need]] = frozenset()
    tables: ClassVar[Mapping[str, Columns]] = {}
    reads: ClassVar[Mapping[str, str]] = {}
    settings: ClassVar[Mapping[str, Any]] = {}
    layer_columns: ClassVar[Mapping[str, LayerColumn]] = {}
    on_page: ClassVar[bool] = True
    panel_items: ClassVar[int] = 0

    @abstractmethod
    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        """Compute the part.

        Raises:
            NotComputable: if it is not defined for this model. The part is then missing, with the state and reason.
        """

    def asked_for(self, request: DiagnosisRequest, *, named: bool) -> bool:
        """Whether a request includes this part. `named`: the request names it, or it is a default part."""
        return named

    def chosen(self, request: DiagnosisRequest) -> dict[str, Any]:
        """The part's own settings, as requested or by default."""
        return {**self.settings, **request.settings.get(self.name, {})}

    def answers(self, facts: Mapping[str, Any], request: DiagnosisRequest) -> bool:
        """Whether an earlier result with these facts satisfies the request."""
        asked = {**request.to_json(), "settings": self.chosen(request)}
        return all(asked[name] == value for name, value in self.request_of(facts).items())

    def request_of(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the request that led to a result with these facts; `settings` are those of the part alone."""
        fields = {**self.reads, **({SETTINGS: SETTINGS} if self.settings else {})}
        return {name: facts[fact] for name, fact in fields.items() if fact in facts}

    def summary(self, result: PartResult) -> str:
        """One line with the main numbers; empty if there is nothing to add to the overview by layer."""
        return ""

    def layer_numbers(self, result: PartResult) -> dict[str, dict[str, Any]]:
        """Layer → the values of `layer_columns`."""
        return {}

    def plot(self, result: PartResult, diagnosis: Diagnosis) -> Figure:
        """The figure, drawn from tables and arrays alone. Raises an error if the part has no figure."""
        raise InputError(f"The part {self.name!r} has no figure. Its tables: {', '.join(result.tables)}.")

    def page(self, result: PartResult, diagnosis: Diagnosis) -> PageContent:
        """The content for the page; by default the main table."""
        return PageContent(tuple(result.tables)[:1])

    def panel(self, result: PartResult, diagnosis: Diagnosis, pack: Packer, most: int) -> Any:
        """The data from which the page's script draws the panel of this part, with at most `most` items."""
        return None


SETTINGS = "settings"  # the fact in which results record the settings of their part
PARTS = Catalogue[Part]("part", "recombine.diagnostics.parts")


def chosen_parts(request: DiagnosisRequest) -> list[Part]:
    """The requested parts in their order; if the request names none, all except those on request.

    Unknown names raise an error that lists the known ones.
    """
    usual = [name for name in PARTS if not PARTS[name].on_request]
    named = usual if request.parts is None else {name: PARTS[name] for name in request.parts}
    chosen = [part for name, part in PARTS.items() if part.asked_for(request, named=name in named)]
    for name, given in request.settings.items():
        _check_settings(PARTS[name], given)
        if PARTS[name] not in chosen:
            raise InputError(f"Settings were given for the part {name!r}, which is not requested. Add it to the parts.")
    return chosen


def _check_settings(part: Part, given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        key = f"{part.name}.{name}"
        if name not in part.settings:
            known = f"Its settings: {', '.join(part.settings)}." if part.settings else "It has none."
            raise InputError(
                f"The part {part.name!r} has no setting {name!r}{nearest(name, part.settings)}. {known}", key
            )
        usual = part.settings[name]
        kind = float if isinstance(usual, float) and type(value) is int else type(value)
        if usual is not None and kind is not type(usual):
            raise InputError(f"{key} must be {type(usual).__name__}, such as {usual!r}. Got {value!r}.", key)


class LayerPart(Part):
    """A part that is computed layer by layer.

    Layers are passed one at a time, so that they need not be in memory together. Quantities that several parts share
    are computed once per layer (see `LayerActivations`).
    """

    needs = frozenset({Need.LAYERS})

    @abstractmethod
    def study(self, layer: LayerActivations, inputs: DiagnosisInputs) -> PartResult:
        """The result for one layer. A layer for which this raises NotComputable is missing from the result."""

    def finish(self, result: PartResult, inputs: DiagnosisInputs) -> PartResult:
        """Add results that do not belong to a single layer to the joined results of all layers."""
        return result

    def compute(self, inputs: DiagnosisInputs) -> PartResult:
        from recombine.diagnostics.computing import compute_layer_parts

        return compute_layer_parts([self], inputs)[self.name]
