"""A real generator process that paints at a speed of its own, without torch.

The prompt says which colour: every preview is magenta, the image is what was asked for. Commands of
`fakes/child.py` work as well.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fakes"))

import child

COLOURS = {"green": (0, 255, 0), "blue": (0, 0, 255), "red": (255, 0, 0)}
PREVIEW = (255, 0, 255)
STEP_S = 0.15


class Painter(child.FakeWorker):
    """Paints one colour, slowly."""

    def run(self, request, context):
        if request.sampling.prompt not in COLOURS:
            return super().run(request, context)
        return self._paint(request, context)

    def _paint(self, request, context):
        from tessera.generator_process.messages import ImageFinished, Progress

        steps = request.sampling.steps
        for step in range(1, steps + 1):
            context.raise_if_cancelled()
            time.sleep(STEP_S)
            context.emit(
                Progress(
                    job_id=request.job_id,
                    step=step,
                    steps=steps,
                    stage="Sampling",
                    preview=_plain(PREVIEW, request),
                )
            )
        for index, seed in enumerate(request.sampling.seeds):
            image = _plain(COLOURS[request.sampling.prompt], request)
            context.emit(ImageFinished(job_id=request.job_id, index=index, seed=seed, image=image))
        return self._finished(request)


def _plain(colour, request):
    import numpy as np
    from tessera.generator_process.messages import ImageData

    pixels = np.empty((request.sampling.height_px, request.sampling.width_px, 3), np.uint8)
    pixels[:] = colour
    return ImageData(pixels=pixels)


if __name__ == "__main__":
    child.main(Painter)
