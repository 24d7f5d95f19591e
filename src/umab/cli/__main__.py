"""`python -m umab.cli` is `umab`."""

import sys

from umab.cli import main

sys.exit(main())
