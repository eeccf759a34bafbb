"""The two render engines: Quarto where it is installed, and an embedded renderer of the same sources.

The embedded renderer runs the cells in a Jupyter kernel, lets pandoc read and write, and lets Typst
set the PDF. It knows the part of Quarto's syntax that the chapters use and stops, with file and line, at
anything else.
"""
