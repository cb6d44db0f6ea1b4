"""Named members of one kind that plug-ins can add to: metrics, diagnostic parts, studies, engines.

    METRICS = Catalogue[Metric]("metric", "recombine.scoring.metrics")

    @METRICS.register
    class PSNR(Metric):
        name = "psnr"

    METRICS["psnr"], list(METRICS)

Components with parameters, chosen by `kind` in a configuration, are in a `recombine.core.registry.Family` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from recombine.core import plugins
from recombine.core.errors import InputError
from recombine.core.registry import import_members, nearest

T = TypeVar("T")


class Catalogue(Mapping[str, T], Generic[T]):
    """Members by name: built-in members sorted by `order` (default 100) and name, then those of plug-ins.

    Args:
        name: What a member is called in messages: "metric".
        home: A package whose modules add members when they are imported, which happens on first use of the catalogue.

    Attributes:
        origin: Maps members that are not built in to their plug-in.
    """

    def __init__(self, name: str, home: str = "") -> None:
        self.name = name
        self.origin: dict[str, str] = {}
        self._home = home
        self._members: dict[str, T] = {}
        plugins.join(self)

    def add(self, name: str, member: T) -> T:
        """Add a member. A name that is taken is rejected."""
        plugins.claim(self, name)
        self._members[name] = member
        return member

    def register(self, member: Callable[[], T]) -> Callable[[], T]:
        """Class decorator: add an instance of the class under its `name`."""
        made = member()
        self.add(made.name, made)  # type: ignore[attr-defined]
        return member

    def has(self, kind: str) -> bool:
        """Whether a name is taken among the members known so far."""
        return kind in self._members

    def remove(self, kind: str) -> None:
        self._members.pop(kind, None)

    def __getitem__(self, name: str) -> T:
        """Look up a member. Raises InputError with the nearest name if there is none."""
        self._complete()
        if name not in self._members:
            raise InputError(
                f"There is no {self.name} {name!r}{nearest(name, self._members)}. Available: "
                f"{', '.join(self._members)}.",
                self.name,
            )
        plugins.mark_used(self.origin.get(name))
        return self._members[name]

    def __contains__(self, name: object) -> bool:
        self._complete()
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        self._complete()
        return iter(list(self._members))

    def __len__(self) -> int:
        self._complete()
        return len(self._members)

    def _complete(self) -> None:
        """Load all members: the built-in ones and those of installed plug-ins."""
        self.discover()
        plugins.load_installed()

    def discover(self) -> None:
        """Load all built-in members."""
        home, self._home = self._home, ""
        if home:
            import_members(home)
            self._members = dict(sorted(self._members.items(), key=self._place))

    def _place(self, item: tuple[str, T]) -> tuple[bool, int, str]:
        name, member = item
        return name in self.origin, getattr(member, "order", 100), name
