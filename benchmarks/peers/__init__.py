"""Drivers of other people's programs: they call them, and hold none of their code."""
