"""The title block: the author, and in a reader's paper the machine."""

import json
import os
from pathlib import Path

from measure.cache.project import MACHINES
from report.engine.project import Project, read_project
from report.markdown import Markup, escape
from report.options import AUTHOR
from report.paper import Paper

AUTHORS = "The Roofwright authors"


def metadata(paper: Paper, project: Project | None = None) -> Markup:
    """Return a metadata block with the ``author``, unless ``_quarto.yml`` has one, and the machines for the filters.

    Their names are ``machines.reference`` and, in a reader's paper, ``machines.here``; in the project's own,
    ``machines.names`` has all by folder.
    """
    project = project or read_project(Path())
    here, reference = paper.at_hand, paper.reference.at_hand
    found: dict[str, object] = {"reference": escape(reference.name)} if reference else {}
    measured = None
    if here and paper.is_readers:
        found["here"] = escape(here.name)
        measured = f"easured on the {found['here']}"
    elif paper.machines:
        found["names"] = {each.folder: escape(each.name) for each in paper.machines}
    block: dict[str, object] = {"machines": found}
    if "author" not in project.settings and (authors := _authors(paper, measured)):
        block["author"] = authors
    return Markup(f"---\n{json.dumps(block, indent=1, ensure_ascii=False)}\n---\n")  # JSON is YAML


def _authors(paper: Paper, measured: str | None) -> list[dict[str, str]]:
    """Return the author whom a reader named, else the project's for its own data, else the machine in that place."""
    if name := os.environ.get(AUTHOR, "").strip():
        return [{"name": escape(name)} | ({"affiliation": f"m{measured}"} if measured else {})]
    if measured:
        return [{"name": f"M{measured}"}]
    return [{"name": AUTHORS}] if paper.at_hand and paper.at_hand.folder in MACHINES else []
