"""A bank of decoders whose answer to unseen combinations is known.

A decoder here is a table: one output per cell of a factor grid, made from the true images by a known rule (`kinds`).
Scenes, grid sizes, hold-outs and levels are drawn by seed (`settings`). Nothing is trained. `expected` states what the
verdict on each decoder must be, and the rules for decoders that could be called two things.
"""
