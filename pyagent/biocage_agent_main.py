"""Start the supervisor: ``python3 -I biocage_agent_main.py --channel=CHANNEL``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs start time
    sys.path.insert(0, here)
    from biocage_agent.supervisor import main

    sys.path.remove(here)
    sys.exit(main(sys.argv[1:]))
