"""The files that ``smcpn new`` writes."""
