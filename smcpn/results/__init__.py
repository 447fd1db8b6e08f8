"""What an identification returns, and tables and comparisons of it."""
