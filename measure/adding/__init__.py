"""Another person's machine: taken from a folder or zip, checked, and put into the cache."""
