"""Classifies the output of every cell: right, a sum of memories, a copy, …, with the evidence for each class."""
