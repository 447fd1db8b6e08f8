"""How long a user waits: searches, runs, updates and commands, one module for each part."""
