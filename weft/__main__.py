"""``python -m weft``: what this installation is and can do, and whether it works."""

from __future__ import annotations

import sys

from weft.debug.installation import report

if __name__ == "__main__":
    sys.exit(report())
