"""Tables of results: what stands in one (`table`), and one module for each way to show it."""

from smcpn.tables.card import Card, WithCard
from smcpn.tables.html import table_html
from smcpn.tables.latex import table_latex
from smcpn.tables.table import Cell, Column, Fact, Table, words
from smcpn.tables.text import csv_line, fact_lines, table_text

__all__ = [
    "Card", "Cell", "Column", "Fact", "Table", "WithCard", "csv_line", "fact_lines", "table_html",
    "table_latex", "table_text", "words",
]  # fmt: skip
