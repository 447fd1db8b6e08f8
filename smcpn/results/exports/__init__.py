"""Models and draws for other tools; each module needs its library only when it is used."""
