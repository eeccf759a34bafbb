"""Random numbers that are the same each time."""

import random

import numpy as np
import pytest
import torch

from measure.models.draws import HIGHEST, LOWEST, same_draws

DRAWS = {
    "random": random.random,
    "uniform": lambda: random.uniform(0, 1),
    "numpy": np.random.rand,
    "torch": lambda: torch.rand(1).item(),
    "many": lambda: torch.rand(100).mean().item(),
    "coin": lambda: 1 - torch.bernoulli(torch.tensor(0.5)).item(),  # heads for low numbers
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws(draw):
    def drawn(pin=None):
        with same_draws(pin) as draws:
            found = draw()
        assert draws.made
        return found

    assert drawn() == drawn()
    assert (drawn(LOWEST), drawn(HIGHEST)) == (0, pytest.approx(1, abs=1e-6))


def test_the_generators_go_on_as_if_nothing_had_been_drawn():
    for each in DRAWS.values():
        states = random.getstate(), np.random.get_state(), torch.get_rng_state()
        expected = each()
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        with same_draws(HIGHEST):
            each()
        assert each() == expected


def test_what_rejects_extreme_numbers_ends():
    for pin in (LOWEST, HIGHEST):
        with same_draws(pin) as draws:
            pass
        assert not draws.made
        with same_draws(pin):
            random.normalvariate()
            np.random.randn(3)
            torch.randn(3)
            assert 0 <= random.randrange(10) < 10
