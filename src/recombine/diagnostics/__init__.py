"""Diagnostics: what a decoder does."""

from recombine.scoring.scores import Scores, score
from recombine.scoring.summary import Summary

__all__ = ["Scores", "Summary", "score"]
