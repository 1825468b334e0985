# SPDX-License-Identifier: GPL-3.0-or-later
"""What was made: every finished image with its settings, in files. Side: both.

`entries.py` is one image as JSON, `store.py` a folder of them, `thumbnails.py` their small
pictures, `recorder.py` the thread that writes; `snapshots.py`, from jobs to entries, and
`place.py`, which folder, are the ones that know Blender.
"""
