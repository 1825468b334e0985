#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work on Tessera: python3 dev.py demo | test | run | bench | check | build."""

import sys

if sys.version_info < (3, 9):
    sys.exit("dev.py needs Python 3.9 or newer. Call it with another Python.")

from scripts.devtools.commands import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
