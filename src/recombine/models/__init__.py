"""Networks: decoders, the renderer of single factors, and hand-written fast paths."""
