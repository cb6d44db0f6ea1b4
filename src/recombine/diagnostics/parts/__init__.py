"""The parts of a diagnosis, one module each. Modules in this folder are found automatically."""
