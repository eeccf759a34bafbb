"""How tests wait for the ends of processes."""

import time

import pytest


def wait_until(is_so):
    """Wait for what must happen soon; fail the test where it has not after a minute."""
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    pytest.fail("it did not happen")


def has_ended(pid):
    import psutil

    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
