"""The command ``roofwright``, and the command line that measuring and the report share."""
