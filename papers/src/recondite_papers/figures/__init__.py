"""The papers' figures drawn from our rows, as SVG; needs matplotlib."""
