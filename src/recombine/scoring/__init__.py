"""How well a model does on every cell: metrics, scores, intervals."""
