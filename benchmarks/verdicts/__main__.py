"""python -m benchmarks.verdicts [--half apart] [--stability] [--without-truth]"""

from __future__ import annotations

import argparse
import time

import torch

from benchmarks.verdicts.bank import cases
from benchmarks.verdicts.evaluate import claims_without_truth, confusion, numbers, outcomes, stability
from benchmarks.verdicts.settings import DRAWS, SEEDS
from recombine.diagnostics.verdict import VerdictKind


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.verdicts", description="The verdict on decoders whose truth is known."
    )
    parser.add_argument("--half", choices=[*SEEDS, "both"], default="design", help="which settings (default: design)")
    parser.add_argument("--draws", type=int, default=DRAWS, help=f"of each kind and scene (default: {DRAWS})")
    parser.add_argument("--stability", action="store_true", help="also move every threshold by a fifth")
    parser.add_argument("--without-truth", action="store_true", help="judge by structure alone")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    halves = list(SEEDS) if arguments.half == "both" else [arguments.half]
    chosen = (case for half in halves for case in cases(half, draws=arguments.draws))
    found = list(outcomes(chosen, truth=not arguments.without_truth))
    print(f"Half: {', '.join(halves)}; {time.perf_counter() - start:.0f} s")
    if arguments.without_truth:
        show(claims_without_truth(found))
        return
    show(numbers(found))
    print()
    table = confusion(found)
    kinds = [str(kind) for kind in VerdictKind]
    print("| accepted | " + " | ".join(kinds) + " |\n|---|" + "---|" * len(kinds))
    for accepted, given in table.items():
        print(f"| {accepted} | " + " | ".join(str(given[kind] or "") for kind in kinds) + " |")
    print()
    for one in found:
        if not one.right or one.share_off > 0.05 or one.factors_right is False or one.without_gap:
            print(f"{one.case.settings.name}, {one.case.split}: accepted {sorted(one.case.decoder.verdicts)}, factors "
                  f"{sorted(one.case.decoder.failing or ())}; {one.verdict}")  # fmt: skip
    if arguments.stability:
        print("\n| threshold | value | changed by −20 % | by +20 % |\n|---|---|---|---|")
        for name, value, lower, higher in stability(found):
            print(f"| `{name}` | {value:g} | {lower:.1%} | {higher:.1%} |", flush=True)


def show(values: dict[str, float]) -> None:
    """One number per line."""
    for name, value in values.items():
        print(f"  {name}: {value:.4g}")


if __name__ == "__main__":
    main()
