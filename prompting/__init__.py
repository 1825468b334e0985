# SPDX-License-Identifier: GPL-3.0-or-later
"""From what an artist types to the prompt of each image: structure, style, wildcards. Side: both.

Only the standard library is used here. The order is structure, then style, then wildcards.
"""
