"""The papers that smcpn builds on, reproduced: one command each."""
