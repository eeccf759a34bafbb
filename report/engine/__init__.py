"""The two render engines: Quarto where it is installed, and an embedded renderer of the same sources.

The embedded one runs the cells in IPython; pandoc reads and writes; Typst sets the PDF. It supports the syntax
of the chapters and stops, with file and line, at anything else.
"""
