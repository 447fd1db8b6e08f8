"""Tables of results: what stands in one (`table`), and one module for each way to show it."""
