"""Bridges to other libraries; each module needs its library only when it is used."""
