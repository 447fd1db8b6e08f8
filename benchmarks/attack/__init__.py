"""Whether anything from outside breaks a process: one module for each way in."""
