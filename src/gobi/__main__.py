"""`python -m gobi` is the same as the command `gobi`."""

import sys

from gobi.cli import main

if __name__ == "__main__":
    sys.exit(main())
