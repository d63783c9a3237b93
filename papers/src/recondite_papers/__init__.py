"""The four papers, reproduced: every table and figure with what it takes to check it."""
