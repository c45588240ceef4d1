"""The training methods, one file each. See `base.py` for the contract and `catalogue.py` for how they are found.

COTEACH_METHODS may name further folders of such files, separated as in PATH: a method need not live in this package.
"""

import os

__path__ += filter(None, os.environ.get("COTEACH_METHODS", "").split(os.pathsep))
