"""Search over states and parameters together: `lifted.search` says how."""
