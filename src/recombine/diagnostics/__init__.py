"""Diagnostics: what a decoder does."""

from recombine.scoring.scores import Scores, Summary, score

__all__ = ["Scores", "Summary", "score"]
