# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose optimizations for a job, and go on with others when memory runs out. Side: generator.

* `facts.py`: what is known of a model before it is loaded.
* `cost_model.py`: bytes, from measured constants.
* `choose.py`: from device, memory, model, size and batch to `Optimizations`.
* `plan.py`, `ladder.py`: what a job runs with, and the next step when that was too much.
* `retrying.py`: the loop around a task. The only module here that needs torch.
"""
