# SPDX-License-Identifier: GPL-3.0-or-later
"""Installing the packages of the generator: which commands, from which Python. Side: Blender."""
