# SPDX-License-Identifier: GPL-3.0-or-later
"""The developer commands behind dev.py. Standard library only."""
