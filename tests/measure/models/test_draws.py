"""Random numbers that are the same each time."""

import copy
import os
import random
import secrets
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from measure.models.draws import HIGHEST, LOWEST, same_draws

OWN = random.Random(), np.random.default_rng(), np.random.RandomState()
SEVENTH = random.Random(7).random()
DRAWS = {
    "random": random.random,
    "uniform": lambda: random.uniform(0, 1),
    "numpy": np.random.rand,
    "torch": lambda: torch.rand(1).item(),
    "many": lambda: torch.rand(100).mean().item(),
    "coin": lambda: 1 - torch.bernoulli(torch.tensor(0.5)).item(),  # heads for low numbers
    "own": OWN[0].random,
    "own of numpy": OWN[1].random,
    "older of numpy": lambda: OWN[2].uniform(),
    "new": lambda: random.Random().random(),
    "reseeded": lambda: random.seed() or random.random(),
    "system": lambda: random.SystemRandom().random(),
    "bytes": lambda: int.from_bytes(os.urandom(7)) / 256**7,
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws(draw):
    def drawn(pin=None):
        with same_draws(pin, draw) as draws:
            found = draw()
        assert draws.made
        return found

    assert drawn() == drawn()
    assert (drawn(LOWEST), drawn(HIGHEST)) == (0, pytest.approx(1, abs=1e-6))


def test_the_generators_go_on_as_if_nothing_had_been_drawn():
    for name in ("random", "uniform", "numpy", "torch", "many", "coin", "own", "own of numpy", "older of numpy"):
        states = random.getstate(), np.random.get_state(), torch.get_rng_state(), copy.deepcopy(OWN)
        expected = DRAWS[name]()
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])
        OWN[0].setstate(states[3][0].getstate())
        OWN[1].bit_generator.state = states[3][1].bit_generator.state
        OWN[2].set_state(states[3][2].get_state())
        with same_draws(HIGHEST, DRAWS[name]):
            DRAWS[name]()
        assert DRAWS[name]() == expected


def test_seeded_generators_and_other_threads_are_left_alone():
    def of_system():
        return [os.urandom(16), random.Random().random(), secrets.token_bytes(16)]

    with ThreadPoolExecutor(1) as pool:
        drawn = []
        for _ in range(2):
            with same_draws(LOWEST) as draws:
                drawn.append(pool.submit(of_system).result())
                assert random.Random(7).random() == SEVENTH
            assert not draws.made
    assert all(one != other for one, other in zip(*drawn, strict=True))
    assert os.urandom(16) != os.urandom(16)


def test_an_algorithm_that_rejects_extreme_numbers_ends():
    for pin in (LOWEST, HIGHEST):
        with same_draws(pin) as draws:
            pass
        assert not draws.made
        with same_draws(pin):
            random.normalvariate()
            np.random.randn(3)
            torch.randn(3)
            assert 0 <= random.randrange(10) < 10
