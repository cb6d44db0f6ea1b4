"""Scores of a model on every cell: metrics, summaries, intervals."""
