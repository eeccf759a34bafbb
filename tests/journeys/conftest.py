from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["*"]
"""All files where measuring's extra is not installed, which brings torch and all else that is imported here."""
