"""What every layer stands on: arguments, units, tables, files, interrupts and messages."""
