"""The paper: its chapters, figures, tables and sentences, all from the cached measurements."""
