"""The paper: a PDF set by Typst."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typst

from measure.errors import UserError
from report.engine.project import Project

TEMPLATE = Path(__file__).parent / "resources" / "paper.typ"


def paper_edition(project: Project) -> dict[str, Any]:
    """Return what `editions.lua` needs for the Typst source, in which citations are written out."""
    settings = {name.removeprefix("format.typst."): value for name, value in project.settings.items()}
    sides = [f"{name[7:]}: {length}" for name, length in settings.items() if name.startswith("margin.")]
    variables = {
        "header-includes": "\n".join(project.header_texts("typst")),
        "papersize": settings.get("papersize", "a4"),
        "margin": ", ".join(sides),
        "fontsize": settings.get("fontsize", "10pt"),
    }
    return {"template": str(TEMPLATE), "variables": {name: value for name, value in variables.items() if value}}


def compile_paper(text: str, project: Project, note: Callable[[str], None]) -> bytes:
    """Return the PDF of a Typst source; fonts are the project's and those in the typst package.

    PDF/UA-1 (ISO 14289-1), for readers who listen, is refused by Typst to a character that no font has: then the PDF
    keeps no standard, and `note` is told.
    """
    fonts = [str(project.root / folder) for folder in project.files("format.typst.font-paths")]
    compiler = typst.Compiler(root=str(project.root), font_paths=fonts, ignore_system_fonts=True)
    standards = project.settings.get("format.typst.pdf-standard", [])
    try:
        pdf: Any = compiler.compile(text.encode(), format="pdf", pdf_standards=standards)
    except typst.TypstError as problem:
        try:
            pdf = compiler.compile(text.encode(), format="pdf")
        except typst.TypstError as error:
            raise UserError(f"Typst stops: {error.message} {' '.join(error.hints)}".strip()) from error
        note(f"the PDF keeps no standard: {problem.message}")
    return bytes(pdf)
