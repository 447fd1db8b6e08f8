"""Priority, interrupts and messages of a running process."""
