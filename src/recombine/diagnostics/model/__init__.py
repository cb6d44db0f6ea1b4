"""A model as a function of factors: its layers, its outputs over the grid, the truth."""
