"""Forced rendering: every value of every factor has its own image."""
