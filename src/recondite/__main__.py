"""The command ``recondite``, and ``python -m recondite``."""

import sys

from recondite._interrupts import interrupted

__all__ = ["main"]


def main() -> None:
    """Loads the command line and runs it; to interrupt the loading is to interrupt the command."""
    try:
        from recondite.cli import main as run  # half a second, which a try must surround
    except BaseException as error:
        if not interrupted(error):
            raise
        print("recondite: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
