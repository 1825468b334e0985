# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that makes the starter model: textures, captions, training, export and evaluation."""
