"""Measuring on many machines at once: Ray hands out the devices, this process plans and writes the cache."""
