"""The jobs of a sweep: training and diagnosing runs. The rest of `sweeps` does not depend on them."""
