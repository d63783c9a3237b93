"""What the four papers print, as data: every table, and every figure whose values can be read."""
