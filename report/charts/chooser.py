"""The chooser of chips: in the page a table that predicts a call on every chip, by ``chooser.js``."""

from typing import Any

from report.analysis import available
from report.analysis.available import DataMissingError, Missing
from report.charts.show import Display, packed
from report.load.paper import Paper
from report.text.prose import escape


def show(paper: Paper) -> Display:
    """Show what the page predicts by; where nothing was fitted or counted, the sentence that says so."""
    found = _choices(paper)
    if isinstance(found, Missing):
        return Display(escape(found))
    data = f'<script type="application/gzip">{packed(found)}</script>'
    hint = "<noscript><p>The chooser needs JavaScript.</p></noscript>"
    return Display(f'```{{=html}}\n<div class="chooser" id="chooser">{hint}{data}</div>\n```\n')


@available.or_missing
def _choices(paper: Paper) -> dict[str, Any]:
    if paper.predictions.coefficients.empty:
        raise DataMissingError("No latency is predicted yet; `python -m measure fit` fits what was timed.")
    choices = paper.predictions.choices
    if not choices.calls:
        raise DataMissingError("No model was counted; `python -m measure --sections workload` counts them.")
    return choices.as_json()
