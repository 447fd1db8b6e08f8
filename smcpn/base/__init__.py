"""Arguments, units, tables, files, interrupts and messages, on which every layer stands."""
