"""Diagnostics: what a decoder does."""

from recombine.diagnostics.scores import Scores, Summary, score

__all__ = ["Scores", "Summary", "score"]
