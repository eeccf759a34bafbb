"""The identity of a user's own model: its source and its operators. A change to either makes it another network."""

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from measure.domain.models import Model
from measure.machine import settings
from measure.models import own_models
from measure.models.call import casting, empty_inputs
from measure.models.catalog import prepare_on_meta
from measure.models.draws import same_draws

SOURCE, RUNS = "its source", "its operators"


def describe(name: str) -> Model:
    """Return the model of a user's own function with its code, two hashes. Raises UserError as ``own_models`` does."""
    model = own_models.describe(name)
    return replace(model, code=f"{_hash_source(name)}-{_hash_runs(model)}")


def differences(before: str | None, now: str | None) -> str:
    """Name the parts of a model's code that changed."""
    parts = zip((SOURCE, RUNS), (before or "-").split("-"), (now or "-").split("-"), strict=True)
    return " and ".join(words for words, old, new in parts if old != new)


def _hash(text: str) -> str:
    return sha256(text.encode(errors="replace")).hexdigest()[:8]


def _hash_source(name: str) -> str:
    """Hash the text of the function's module, and of the modules that it imports from where its own package lies."""
    import sysconfig  # late: --help answers at once

    path = name.partition(":")[0]
    text = getattr(sys.modules[path], "__file__", None)
    if not text or not text.endswith(".py"):
        return _hash("")
    file = Path(text).resolve()
    root = file.parents[path.count(".") + (file.name == "__init__.py")]
    installed = [Path(sysconfig.get_path(place)).resolve() for place in ("purelib", "platlib", "stdlib")]
    found, left = {file}, [] if root in installed else [(file, path)]
    while left:
        file, path = left.pop()
        package = path if file.name == "__init__.py" else path.rpartition(".")[0]
        for imported in _imports(file, package):
            base = root.joinpath(*imported.split("."))
            for each in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
                if each not in found and each.is_file():
                    found.add(each)
                    left.append((each, imported))
    return _hash("".join(f"{each.relative_to(root)}\n{each.read_text(errors='replace')}\n" for each in sorted(found)))


def _imports(file: Path, package: str) -> Iterator[str]:
    """Yield the names of modules that a file imports anywhere; some may be functions of a module instead."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):  # it was not imported, or the import would have failed
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            module = ".".join(filter(None, [*above, node.module or ""]))
            names = [module, *(f"{module}.{alias.name}".lstrip(".") for alias in node.names)]
        else:
            continue
        for name in filter(None, names):
            parts = name.split(".")
            yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


@settings.preserve()  # settings that a network changes while it runs must not reach the next one
def _hash_runs(model: Model) -> str:
    """Hash the operators of a forward pass with their shapes and types, which decide its bytes and FLOP.

    No formula is involved, so a corrected formula is no change. "" if the model cannot run without values.
    """
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    class Calls(TorchDispatchMode):
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[str] = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.seen.append(f"{function} {tree_map(_form, (args, kwargs))}")
            return function(*args, **(kwargs or {}))

    for is_fake in (False, True):
        with suppress(Exception):  # own code may raise anything
            (call,) = prepare_on_meta(model, [own_models.PROBE], keep_constants=is_fake)
            held = casting(call.network, None, None, fake=is_fake)
            # Random numbers may decide the operators
            with same_draws(root=call.network), held as (device, dtype), Calls() as calls:
                made = empty_inputs(call, device, dtype)
                call.network(*made.inputs, **made.keywords)
            return _hash("\n".join(sorted(calls.seen)))
    return ""


def _form(leaf: object) -> object:
    """Return the shape and type of a tensor, and the value of anything else that prints alike in every process."""
    shape, kind = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is not None:
        return f"{tuple(shape)} {kind}"
    return leaf if isinstance(leaf, (bool, int, float, str)) or leaf is None else type(leaf).__name__
