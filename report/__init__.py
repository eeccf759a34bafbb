"""The paper: its chapters, figures, tables and sentences, all from the cached measurements."""

UNDISTURBED = "undisturbed."  # prefix of facts without the cells measured while other programs used a machine
