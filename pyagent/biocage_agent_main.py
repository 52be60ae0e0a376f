"""Start the supervisor: ``python3 -I biocage_agent_main.py --channel=CHANNEL``.

With ``--once`` in the first place: run one script and print its result.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib costs start time
    sys.path.insert(0, here)
    arguments = sys.argv[1:]
    if arguments[:1] == ["--once"]:
        from biocage_agent.oneshot import main

        del arguments[0]
    else:
        from biocage_agent.supervisor import main

    sys.path.remove(here)
    sys.exit(main(arguments))
