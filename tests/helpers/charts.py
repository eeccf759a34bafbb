"""What a chart shows, read from its specification."""


def rows(chart, *columns):
    """The rows of the chart's data sets that hold all these columns."""
    found = [row for data in chart.to_dict()["datasets"].values() for row in data if set(columns) <= set(row)]
    unique = {tuple(sorted((key, str(value)) for key, value in row.items())): row for row in found}
    return list(unique.values())


def on(device, chart, *columns):
    """The rows of a device by model and batch size."""
    return {(row["model"], row["batch"]): row for row in rows(chart, "device", *columns) if row["device"] == device}


def titles(chart):
    return [panel["title"] for panel in chart.to_dict()["concat"]]
