"""``python -m smcpn``."""

from smcpn.cli.app import main

main()
