"""Stiff problems: accuracy, cost, published optima."""
