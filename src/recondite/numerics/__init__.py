"""Pure functions on float64: log-Bessel functions, the cosine law of the sphere, roots, integrals."""
