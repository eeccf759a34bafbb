"""What would spoil a measurement here, for ``doctor``."""
