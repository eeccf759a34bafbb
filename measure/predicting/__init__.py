"""How long a call takes on a device: terms that are counted, fitted to what was timed, and checked by leaving out."""
