"""The results of the paper, R1 to R15: one file per study."""
