"""``python -m weft.train.report``."""

import sys

from weft.train.report.making import main

if __name__ == "__main__":
    sys.exit(main())
