"""Import this to have every formula in the registry: each of these files registers its own."""

from measure.counting import (
    attention,
    factorisations,
    loss_functions,
    normalisations,
    optimisers,
    products,
    recurrent,
    samplings,
    windows,
)

__all__ = [
    "attention",
    "factorisations",
    "loss_functions",
    "normalisations",
    "optimisers",
    "products",
    "recurrent",
    "samplings",
    "windows",
]
