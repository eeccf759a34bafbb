"""The machines that were measured."""

from report.analysis import available, datasheet
from report.analysis.available import or_missing
from report.load.paper import Paper
from report.tables.pipe import LEFT, NONE, pipe
from report.text.prose import escape
from report.text.quantities import (
    si,
)


@or_missing
def machines(paper: Paper) -> str:
    """The machines, a column each, in their newest environments."""
    shown = available.machines(paper)
    about = [machine.environment for machine in shown]
    properties: list[tuple[str, list[str | None]]] = [
        ("folder", [machine.folder for machine in shown]),
        ("device", [each.device for each in about]),
        ("processor", [datasheet.identity(each) for each in about]),
        ("physical cores", [str(each.physical_cores) if each.physical_cores else None for each in about]),
        ("threads", [str(each.threads) if each.threads else None for each in about]),
        ("memory", [si(each.memory_byte, "B") if each.memory_byte else None for each in about]),
        ("vector units", [each.vector_extension for each in about]),
        ("driver", [each.driver for each in about]),
        ("system", [each.system for each in about]),
        ("Python", [each.python for each in about]),
        ("torch", [each.torch for each in about]),
        ("torchvision", [each.torchvision for each in about]),
        ("torchaudio", [each.torchaudio for each in about]),
        ("tuned by", [each.tuning for each in about]),
        ("environment", [each.environment_id for each in about]),
        ("first seen (UTC)", [each.recorded_at[:16].replace("T", " ") for each in about]),
    ]
    header = [("Property", LEFT), *((escape(available.title(machine)), LEFT) for machine in shown)]
    return pipe(
        header, [[name, *(escape(text) if text else NONE for text in texts)] for name, texts in properties]
    )
