"""The frontier at equal reconstruction risk: one program for many defences, and its attackers."""
