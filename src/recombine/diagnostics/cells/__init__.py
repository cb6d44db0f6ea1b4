"""What the output for one cell is: right, a sum of memories, a copy, … Evidence and classes, cell by cell."""
