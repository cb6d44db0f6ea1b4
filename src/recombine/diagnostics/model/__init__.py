"""A model seen from the factors: its layers, its outputs over the grid, the truth."""
