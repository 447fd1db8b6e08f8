"""The search for terms: lifted Gauss-Newton that selects in every iteration."""
