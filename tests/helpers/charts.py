"""What a chart shows, read from its specification."""

import warnings
from functools import cache


@cache
def drawn(figure, paper, *arguments):
    """The valid specification of a figure's chart, built once without a warning however many tests look at it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return figure(paper, *arguments).to_dict()


def rows(specification, *columns):
    """The rows of the chart's data sets that hold all these columns."""
    found = [row for data in specification["datasets"].values() for row in data if set(columns) <= set(row)]
    unique = {tuple(sorted((key, str(value)) for key, value in row.items())): row for row in found}
    return list(unique.values())


def on(device, specification, *columns):
    """The rows of a device by model and batch size."""
    found = rows(specification, "device", *columns)
    return {(row["model"], row["batch"]): row for row in found if row["device"] == device}


def titles(specification):
    return [panel["title"] for panel in specification["concat"]]
