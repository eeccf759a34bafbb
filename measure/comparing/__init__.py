"""Two sides of measurements held against each other, for ``compare``."""
