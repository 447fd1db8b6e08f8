"""The experiments of papers, each paper one command: ours beside the published numbers."""
