"""Speed of the library, as ratios against a plain training script and against the machine: `python -m benchmarks`."""
