"""The experiments of papers, each paper one command: ours against the published numbers."""
