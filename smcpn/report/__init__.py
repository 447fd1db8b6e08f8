"""Figures and reports: each module is one figure, `style` is the look of all of them.

A figure is a `matplotlib.figure.Figure`; nothing is shown and no global state is touched. Outside
a notebook, write one with ``figure.savefig("name.svg")``.
"""
