"""Grade many submissions at once, each in a sandbox of its own.

    python3 examples/grading/grade.py [--biocage bin/biocage] [--engine auto|docker|gvisor] [--jobs N] [DIRECTORY]

The task is to write `median(values)`. A submission runs with `biocage run
--json`: a fresh sandbox with limits, gone afterwards. It is asked for its
answers to some questions, and the right ones never enter the sandbox: what a
submission prints, exits with or patches cannot make wrong answers right.

Verdicts: pass, fail, timeout, memory. The exit code is 0 when every submission
got one, whatever it is; 1 when some could not be graded.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import json
import os
import pathlib
import statistics
import subprocess
import sys

LIMITS = ["--timeout", "10s", "--memory", "512m", "--cpus", "1", "--pids", "64", "--disk", "16m", "--max-output", "16KiB"]
QUESTIONS = [[3], [1, 2], [5, 1, 4], [2, 2, 9, 1], [-7, 0, 7, 100, -100], list(range(99, 0, -1))]
RIGHT = [statistics.median(question) for question in QUESTIONS]


def ask(source: str) -> str:
    """The submission, and the questions as its last expression."""
    return f"{source}\n\n[float(median(list(question))) for question in {QUESTIONS!r}]\n"


def judge(result: dict) -> tuple[str, str]:
    """The verdict and the reason. Only what the sandbox's trusted side tells counts, and the answers."""
    error = result["error"]
    if error is not None:
        if error["kind"] == "sandbox":
            raise RuntimeError(error["message"])
        if error["kind"] == "timeout":
            return "timeout", error["message"]
        if error["kind"] == "memory" or error.get("type") == "MemoryError":
            return "memory", error["message"] or "MemoryError"
        return "fail", f"{error.get('type', error['kind'])}: {error['message']}"
    try:
        answers = ast.literal_eval(result["result"] or "")
    except (SyntaxError, ValueError):
        return "fail", "it gave no answers"
    if answers != RIGHT:
        return "fail", "wrong answers"
    return "pass", ""


def grade(biocage: str, engine: str, path: pathlib.Path) -> tuple[str, str, float]:
    """Verdict, reason and seconds."""
    command = [biocage, "run", "--json", "--engine", engine, *LIMITS, "-"]
    code = ask(path.read_text(encoding="utf-8", errors="replace"))
    done = subprocess.run(command, input=code.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if not done.stdout:
        return "error", done.stderr.decode(errors="replace").strip()[:300], 0.0
    result = json.loads(done.stdout)
    try:
        return (*judge(result), result["execution_time"])
    except RuntimeError as error:
        return "error", str(error), 0.0


def main() -> int:
    here = pathlib.Path(__file__).parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--biocage", default="bin/biocage")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--jobs", type=int, default=max(2, (os.cpu_count() or 2) // 2))
    parser.add_argument("--json", action="store_true", help="one line of JSON for each submission")
    parser.add_argument("directory", nargs="?", type=pathlib.Path, default=here / "submissions")
    options = parser.parse_args()
    paths = sorted(options.directory.glob("*.py"))
    if not paths:
        sys.exit(f"there is no submission in {options.directory}")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        graded = pool.map(lambda path: grade(options.biocage, options.engine, path), paths)
        for path, (verdict, reason, seconds) in zip(paths, graded):
            failed = failed or verdict == "error"
            if options.json:
                print(json.dumps({"name": path.stem, "verdict": verdict, "reason": reason, "seconds": seconds}), flush=True)
            else:
                print(f"{path.stem:<12} {verdict:<8} {seconds:6.2f} s  {reason}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
