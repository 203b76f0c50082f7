"""Paper 000's sample program (figure 1): filter a stream of medical images, then render them in a farm.

Run it with the name of a folder of DICOM files, or without a name to use the scans that pydicom ships.
"""

import sys
from pathlib import Path

import phalanx as px
from phalanx.demo import denoise, render
from phalanx.demo.reading import shots_in, slices


def main() -> None:
    """Renders on two interpreters on this machine; pictures come in the order of the slices."""
    scans = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    pictures = Path("farm-output")
    pictures.mkdir(exist_ok=True)

    # Rendering is heavier than filtering, so it is farmed out.
    program = px.Pipeline(denoise, px.Farm(render))
    with px.Manager(contract=px.ParDegree(2)) as manager:
        for picture in manager.compute(program, slices(shots_in(scans, tasks=24))):
            print(picture.save(pictures))


if __name__ == "__main__":
    main()
