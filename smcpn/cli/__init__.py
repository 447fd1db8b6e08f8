"""The command ``smcpn``."""
