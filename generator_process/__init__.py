# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that runs without Blender: messages, the client, the server, the tasks. Side: both."""
