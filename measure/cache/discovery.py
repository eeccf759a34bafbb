"""Discovery of the modules of a package, so that a new figure, variant or section is one file and no list names it."""

import importlib
import pkgutil


def import_modules(package: str) -> list[str]:
    """Import every module of a package and return their names, sorted."""
    path = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(path))
    for name in names:
        importlib.import_module(f"{package}.{name}")
    return names
