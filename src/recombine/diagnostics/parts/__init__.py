"""The parts of a diagnosis: one file each."""
