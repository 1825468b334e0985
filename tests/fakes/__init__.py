# SPDX-License-Identifier: GPL-3.0-or-later
"""Stand-ins for what a test cannot have."""
