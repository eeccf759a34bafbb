"""What the cache holds of a machine, or of one model on it, as an answer for the terminal."""
