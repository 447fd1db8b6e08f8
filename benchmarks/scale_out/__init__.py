"""Runs through executors on several processes: bytes, failures, speed, and scaling beyond."""
