"""python -m benchmarks [--only cnn,mlp,data,error,sweep] [--out bench.json] [--quick]"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks.cases import CASES, QUICK, Scale
from benchmarks.measure import machine


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Speed ratios against a plain script.")
    parser.add_argument("--only", help=f"some of {','.join(CASES)}; all of them unless given")
    parser.add_argument("--out", type=Path, help="write the table here as JSON")
    parser.add_argument("--quick", action="store_true", help="everything once on toy sizes; the numbers mean little")
    arguments = parser.parse_args()
    names = list(CASES) if arguments.only is None else arguments.only.split(",")
    unknown = [name for name in names if name not in CASES]
    if unknown:
        parser.error(f"There is no benchmark {', '.join(unknown)}. Benchmarks: {', '.join(CASES)}.")
    facts, rows = machine(), []
    print("  ".join(f"{key}={value}" for key, value in facts.items() if key != "environment"))
    for name in names:
        for row in CASES[name](QUICK if arguments.quick else Scale()):
            print(row, flush=True)
            rows.append({"case": name, **row.to_json()})
    if arguments.out is not None:
        arguments.out.write_text(
            json.dumps({"machine": facts, "quick": arguments.quick, "rows": rows}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
