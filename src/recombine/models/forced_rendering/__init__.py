"""Forced rendering: every value of every factor owns an image."""
