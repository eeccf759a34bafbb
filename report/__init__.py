"""The paper: its chapters, figures, tables and sentences, all from the cached measurements."""

import importlib
import pkgutil


def import_modules(package: str) -> list[str]:
    """Import every module of a package and return their names, sorted. So a new figure is one file, and on no list."""
    path = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(path))
    for name in names:
        importlib.import_module(f"{package}.{name}")
    return names
