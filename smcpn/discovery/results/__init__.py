"""What a discovery returns, and how it is printed and compared."""
