"""YAML with line numbers: reading a mapping and refusing the keys that nobody would honour."""

from typing import Any

import yaml

from measure.cli.suggestion import did_you_mean
from measure.errors import UserError

Schema = dict[str, Any]
"""What each key may hold: a type, the set of its values, their range, `[str]` for a list of names, or the schema of
the mapping below it."""

TEXT = (str, int, float)
FILES = (str, list)
HEADERS = (str, list, dict)
NAMES = [str]

NUMBER = "a number"
KINDS = {str: "a text", int: NUMBER, float: NUMBER, bool: "true or false", list: "a list", dict: "a mapping"}

# The keys that both engines understand in `_quarto.yml` and in the front matter.
HTML: Schema = {
    "toc": bool, "toc-location": {"left"}, "toc-depth": int, "toc-title": str, "embed-resources": {True},
    "html-math-method": {"mathml"}, "css": FILES, "include-in-header": HEADERS, "output-file": str,
    "theme": {"default", "none"},
}  # fmt: skip
TYPST: Schema = {
    "output-file": str, "papersize": {"a4", "us-letter"}, "font-paths": FILES, "include-in-header": HEADERS,
}  # fmt: skip
DOCUMENT_SCHEMA: Schema = {
    "project": {"type": {"default"}, "output-dir": str, "execute-dir": {"project"}, "render": list},
    "title": TEXT, "subtitle": TEXT, "author": (str, list), "date": object, "lang": str, "description": TEXT,
    "keywords": list, "bibliography": FILES, "csl": str, "citeproc": {True}, "number-sections": bool,
    "format": {"html": HTML, "typst": TYPST},
    "execute": {"echo": bool, "warning": bool},
    "filters": list,
    "ridgepoint": {"chapters": NAMES, "machines": NAMES, "figure-width": range(400, 1201)},
}  # fmt: skip


def read_settings(text: str, file: str, first_line: int, schema: Schema) -> dict[str, Any]:
    """Return the mapping that `text`, found in `file` from `first_line` on, holds.

    Raise UserError, with file and line, for YAML that does not parse, an unknown key or a value outside
    the schema.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = first_line + (error.problem_mark.line if error.problem_mark else 0)
        raise UserError(f"{file}:{line}: this is not valid YAML: {error.problem}; correct it") from error
    except (yaml.YAMLError, ValueError) as error:  # a character that no YAML has, a 13th month
        raise UserError(f"{file}: this is not valid YAML: {' '.join(str(error).split())}; correct it") from error
    if root is None or values is None:
        return {}
    _check(root, values, schema, file, first_line)
    return dict(values)


def _check(node: yaml.Node, value: Any, schema: Schema, file: str, first_line: int) -> None:
    place = f"{file}:{first_line + node.start_mark.line}"
    if not isinstance(node, yaml.MappingNode):
        raise UserError(f"{place}: expected a mapping of {', '.join(schema)}, found {value!r}; write one")
    for key_node, value_node in node.value:
        key = str(key_node.value)
        place = f"{file}:{first_line + key_node.start_mark.line}"
        if key not in schema:
            raise UserError(
                f"{place}: unknown key '{key}'; known here are {', '.join(schema)}{did_you_mean(key, schema)}"
            )
        if not isinstance(schema[key], dict):
            if problem := _problem(value[key], schema[key]):
                raise UserError(f"{place}: '{key}' {problem}")
        elif value[key] is not None:
            _check(value_node, value[key], schema[key], file, first_line)


def _problem(value: Any, allowed: Any) -> str | None:
    """Say why a value is none of those allowed; return None where it is one."""
    match allowed:
        case set():
            names = " or ".join(yaml.safe_dump(v).split("\n")[0] for v in sorted(allowed, key=str))
            return None if value in list(allowed) else f"must be {names}, not {value!r}"
        case range():
            numbers = f"a whole number from {allowed[0]} to {allowed[-1]}"
            return None if value in allowed else f"must be {numbers}, not {value!r}"
        case list():
            if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
                return None
            return f"must be a list of names, such as [a, b], not {value!r}"
    if isinstance(value, allowed):
        return None
    kinds = allowed if isinstance(allowed, tuple) else (allowed,)
    return f"cannot be {value!r}; give {' or '.join(dict.fromkeys(KINDS[kind] for kind in kinds))}"
