"""The libraries that models come from, a file each."""
