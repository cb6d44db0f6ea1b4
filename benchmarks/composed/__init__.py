"""Whether the composed decoder composes: scenes, splits, seeds and criteria fixed in test.yaml, rivals beside it."""
