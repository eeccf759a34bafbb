"""Finds what would spoil a measurement here, for ``doctor``."""
