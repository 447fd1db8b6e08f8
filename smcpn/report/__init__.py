"""Figures of results, and `html`, the report that holds them all; `style` is their common look.

A figure is a `matplotlib.figure.Figure`; nothing is shown and no global state is touched. Outside
a notebook, write one with ``figure.savefig("name.svg")``.
"""
