"""Scripts that render pages are no modules: pytest need not import them."""

collect_ignore = ["make_figures.py", "make_outputs.py", "make_tiles.py", "typeset.py"]
