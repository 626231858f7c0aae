"""The reference pages under docs/reference/, generated from types, settings, reasons, metrics and commands.

`python -m dev.reference` writes them; a test compares what is committed with what the code generates.
"""
