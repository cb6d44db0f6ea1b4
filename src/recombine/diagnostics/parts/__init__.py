"""The parts of a diagnosis, one module each: a module in this folder joins by being there. See `diagnostics.part`."""
