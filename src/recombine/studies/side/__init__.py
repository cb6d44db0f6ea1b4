"""Side results, S1 to S4: one file per study."""
