"""The posterior of supports and coefficients by tempered SMC on trajectories."""
