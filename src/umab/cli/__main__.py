"""`python -m umab.cli` runs `umab`."""

import sys

from umab.cli import main

sys.exit(main())
