"""Specification of a sweep: turns command-line words or a YAML file into configurations."""
