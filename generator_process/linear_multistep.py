# SPDX-License-Identifier: GPL-3.0-or-later
"""The linear multistep scheduler without SciPy. Side: generator."""

import numpy as np
from diffusers import LMSDiscreteScheduler

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)


class LinearMultistepScheduler(LMSDiscreteScheduler):
    """Integrates its polynomials exactly, where diffusers needs SciPy to do so numerically."""

    def get_lms_coefficient(self, order: int, t: int, current_order: int) -> float:
        """Return the integral of a Lagrange polynomial over one step of the sampling.

        Source: Gauss-Legendre quadrature, exact up to degree 7; the degree is `order` - 1 <= 3.

        Args:
            order: How many earlier derivatives are used.
            t: Index of the step.
            current_order: Which of them the coefficient is for, 0 for the newest.
        """
        sigmas = [float(self.sigmas[t - back]) for back in range(order)]
        start, end = float(self.sigmas[t]), float(self.sigmas[t + 1])
        points = (end - start) / 2 * _NODES + (start + end) / 2
        values = np.ones_like(points)
        for other, sigma in enumerate(sigmas):
            if other != current_order:
                values *= (points - sigma) / (sigmas[current_order] - sigma)
        return float((end - start) / 2 * np.dot(_WEIGHTS, values))
