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
    options = project.format("typst")
    variables = {
        "header-includes": "\n".join(project.header_texts("typst")),
        "papersize": options.get("papersize", "a4"),
        "margin": ", ".join(f"{side}: {length}" for side, length in (options.get("margin") or {}).items()),
        "fontsize": options.get("fontsize", "10pt"),
    }
    given = {name: value for name, value in variables.items() if value}
    return {"template": str(TEMPLATE), "variables": given}


def compile_paper(text: str, project: Project, note: Callable[[str], None]) -> bytes:
    """Return the PDF of a Typst source; fonts are the project's and those in the typst package.

    PDF/UA-1 (ISO 14289-1), for readers who listen, is refused by Typst to a character that no font has: then the PDF
    keeps no standard, and `note` is told.
    """
    options = project.format("typst")
    fonts = [str(project.root / folder) for folder in project.files(options.get("font-paths"))]
    compiler = typst.Compiler(root=str(project.root), font_paths=fonts, ignore_system_fonts=True)
    try:
        pdf: Any = compiler.compile(text.encode(), format="pdf", pdf_standards=options.get("pdf-standard", []))
    except typst.TypstError as problem:
        try:
            pdf = compiler.compile(text.encode(), format="pdf")
        except typst.TypstError as error:
            raise UserError(f"Typst stops: {error.message} {' '.join(error.hints)}".strip()) from error
        note(f"the PDF keeps no standard: {problem.message}")
    return bytes(pdf)
