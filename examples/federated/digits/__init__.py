"""Digits over Flower, defended and audited."""
