"""What is identified: an equation, records of it, and what is known beforehand."""
