"""The two render engines: Quarto where it is installed, and an embedded renderer of the same sources.

Source: the embedded renderer runs the cells in a Jupyter kernel, lets pandoc read and write, and lets Typst
set the PDF. It knows the part of Quarto's syntax that README.md lists and stops at anything else.
"""
