"""The benchmark of the field: remedies, scenes and splits under one budget. See docs/benchmark.md."""
