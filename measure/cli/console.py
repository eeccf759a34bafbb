"""The terminal as rich writes to it; measuring alone needs rich."""

import rich.console


class Console(rich.console.Console):
    """Raises BrokenPipeError where nobody reads any more, as ``print`` does: rich would end the program with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError
