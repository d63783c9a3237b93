"""Pure functions on float64: log-Bessel functions, capacities of balls, sampling, roots."""
