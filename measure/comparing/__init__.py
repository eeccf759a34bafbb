"""Compares two sides of measurements, for ``compare``."""
