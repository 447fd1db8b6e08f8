"""The code of the documentation: found, executed, and shown with what it printed and drew."""
