"""`python -m apfproxy`."""

import sys

from apfproxy.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
