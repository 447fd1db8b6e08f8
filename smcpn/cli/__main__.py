"""``python -m smcpn.cli``, the same as ``python -m smcpn``."""

from smcpn.cli.app import main

if __name__ == "__main__":
    main()
