"""``python -m recondite``."""

from recondite.cli import main

if __name__ == "__main__":
    main()
