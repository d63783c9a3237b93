"""Rebuilding records from the gradients they caused."""
