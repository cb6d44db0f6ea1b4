"""Side results, one file per study."""
