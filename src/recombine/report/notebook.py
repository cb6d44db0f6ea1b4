"""The explorer in a notebook: `recombine.explore(diagnosis)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from recombine.core.errors import InputError
from recombine.diagnostics.diagnosis import Diagnosis
from recombine.report.collect import Collected, Model
from recombine.report.page import Page, build

HEIGHT = 900


@dataclass(frozen=True)
class Explorer:
    """An explorer that Jupyter displays. `html` is the complete page."""

    page: Page
    height: int = HEIGHT

    @property
    def html(self) -> str:
        """The complete page."""
        return self.page.html

    def _repr_html_(self) -> str:
        """A sandboxed frame that can run its own script but cannot access the notebook or the network."""
        return (
            f'<iframe sandbox="allow-scripts allow-downloads" title="recombine explorer" srcdoc="{escape(self.html)}" '
            f'style="width:100%;height:{int(self.height)}px;border:0"></iframe>'
        )

    def __repr__(self) -> str:
        return f"Explorer({self.page.megabytes:.1f} MB of HTML; displayed in a notebook)"


def explore(
    *diagnoses: Diagnosis | Mapping[str, Diagnosis],
    units: int | None = None,
    kernel: bool = True,
    height: int = HEIGHT,
) -> Explorer:
    """Explore the factor plane of one or more diagnosed models in a notebook.

    Args:
        *diagnoses: Diagnoses, or one mapping from names to diagnoses.
        units: Maximum number of units per layer in the unit browser; 64 by default.
        kernel: Whether to show Gram matrices.
        height: Height of the frame in pixels.

    Example:
        >>> rc.explore({"baseline": first.diagnosis, "stripes": second.diagnosis})  # doctest: +SKIP
    """
    named: list[tuple[str, Diagnosis]] = []
    wrong: list[object] = []
    for given in diagnoses:
        if isinstance(given, Mapping):
            named += given.items()
        elif isinstance(given, Diagnosis):
            named.append((str(given.source.get("run", f"model {len(named) + 1}")), given))
        else:
            wrong.append(given)
    wrong += [diagnosis for _, diagnosis in named if not isinstance(diagnosis, Diagnosis)]
    if wrong:
        raise InputError(
            f"explore takes diagnoses or a mapping from names to diagnoses. Got {type(wrong[0]).__name__} instead. "
            "Create a diagnosis with rc.diagnose(…), or use run.diagnosis."
        )
    if not named:
        raise InputError("There is nothing to explore. Pass a diagnosis, for example rc.explore(rc.diagnose(…)).")
    models = [Model(name, diagnosis) for name, diagnosis in named]
    return Explorer(build(Collected(models=models), units=units, kernel=kernel, embedded=True), height)
