"""Runs: their configuration, their files and their cost."""
