"""Composing by operators: every value of every factor moves, blurs, tints or draws what the others made."""
