"""A recipe whose process notes what it is doing: ``python noting_phases.py RECIPE OPTIONS``.

At the start of each phase that the progress bar shows there is a file of its name.
"""

import runpy
import sys
from pathlib import Path

from rlkit_sac.runs.loggers import ProgressBar

if __name__ == "__main__":
    phase = ProgressBar.phase

    def noted(self, name):
        Path(name).touch()
        return phase(self, name)

    ProgressBar.phase = noted
    sys.argv.pop(0)
    runpy.run_path(sys.argv[0], run_name="__main__")
