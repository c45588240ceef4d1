"""`python -m coteach` is the command line."""

import sys

from coteach.cli import main

sys.exit(main())
