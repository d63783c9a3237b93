"""Texts from gradients: what the span of a transformer's gradients gives away."""
