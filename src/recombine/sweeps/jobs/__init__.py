"""What the jobs of a sweep do: train runs, diagnose them. Here sweeps meet the science."""
