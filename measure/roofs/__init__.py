"""The kernels that roofs and clocks are read from, one module for each language or library that they are written in."""
