# SPDX-License-Identifier: GPL-3.0-or-later
"""One module for each thing that the user can do. Side: Blender."""
