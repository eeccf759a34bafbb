"""The paper: its chapters, figures, tables and sentences, all from the cached measurements."""

CALM = "calm."  # before the names of facts that leave out what was measured while other programs used a machine
