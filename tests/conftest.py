"""Settings all tests share."""

from hypothesis import settings

# The same examples every time, and no files left behind.
settings.register_profile("recombine", max_examples=40, deadline=None, derandomize=True, database=None)
settings.load_profile("recombine")
