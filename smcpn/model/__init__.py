"""The identification problem: an ODE, measured records, noise and prior distributions."""
