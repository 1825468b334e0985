# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole task on tiny real pipelines."""

import numpy as np


def test_makes_an_image(runner):
    (image,) = runner.images()
    assert image.shape == (64, 64, 3)
    assert image.dtype == np.uint8
    assert image.std() > 1
