"""What a run of the fuzzer counts: cases, exit codes, how far they got, processor time and findings."""

from __future__ import annotations

import collections


class Statistics:
    """Counts per kind of case."""

    def __init__(self) -> None:
        self.ways: collections.Counter[str] = collections.Counter()
        self.codes: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.points: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
        self.deep: collections.Counter[str] = collections.Counter()
        self.forked: collections.Counter[str] = collections.Counter()
        self.seconds: collections.Counter[str] = collections.Counter()
        self.findings: list[tuple[str, str, str]] = []

    def add(self, way: str, kind: str, code: str, seconds: str, passed: str = "") -> None:
        kind = kind if kind in ("command", "yaml", "folder", "model", "other") else "found"
        self.ways[way] += 1
        self.codes[kind][code] += 1
        self.seconds[way] += float(seconds)  # type: ignore[assignment]
        if way == "forked":
            self.forked[kind] += 1
            self.deep[kind] += bool(passed)
            self.points[kind].update(passed.split(",") if passed else [])

    def add_finding(self, case: str, what: str, words: str) -> None:
        self.findings.append((case, what, words))

    def line(self) -> str:
        cases = self.ways["forked"] + self.ways["process"]
        return f"{cases} cases, {self.ways['process']} of them as processes; {len(self.findings)} findings"

    def __str__(self) -> str:
        lines = []
        for kind in sorted(self.codes):
            codes = ", ".join(f"{code}: {number}" for code, number in sorted(self.codes[kind].items()))
            share = f"{self.deep[kind] / self.forked[kind]:.0%}" if self.forked[kind] else "–"
            points = ", ".join(f"{point} {number}" for point, number in self.points[kind].most_common())
            lines.append(f"{kind}: exit codes {codes}; past the first checks {share} ({points})")
        for way, number in self.ways.items():
            lines.append(f"{way}: {self.seconds[way] / number:.3f} s of processor time per case")
        return "\n".join(lines)
