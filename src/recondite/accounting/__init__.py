"""Cost of a whole run."""
