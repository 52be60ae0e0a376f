"""Every Python source of the project compiles."""

import pathlib

found = sorted(pathlib.Path("/data/project").rglob("*.py"))
wanted_to_fail = {"syntax.py"}  # a submission of the grading example
for path in found:
    if path.name not in wanted_to_fail:
        compile(path.read_text(encoding="utf-8"), str(path), "exec")
assert found
print(f"{len(found)} sources")
