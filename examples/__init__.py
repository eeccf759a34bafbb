"""Models of one's own, as a user writes them."""
