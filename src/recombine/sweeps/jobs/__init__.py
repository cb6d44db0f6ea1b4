"""The jobs of a sweep: training and diagnosing runs. Engines and driver do not depend on what they compute."""
