"""Composing by operators: every value of every factor moves, blurs, tints or draws the result of the others."""
