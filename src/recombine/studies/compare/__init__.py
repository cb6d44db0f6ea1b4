"""The benchmark: remedies on scenes and splits under one budget. See docs/benchmark.md."""
