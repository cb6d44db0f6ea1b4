"""The jobs of a sweep: training and diagnosing runs. Only this package of sweeps knows the science."""
