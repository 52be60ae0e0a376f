"""Answers each line with what it evaluates to, as the user that --drop-uid names."""
import os
import sys

options = dict(a[2:].split("=", 1) for a in sys.argv[1:])
fd = int(options["channel"].removeprefix("fd:").split(",")[0])
reader, writer = os.fdopen(os.dup(fd), "r"), os.fdopen(fd, "w")
if uid := int(options.get("drop-uid", "0")):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
print("ready", os.getuid(), file=writer, flush=True)
for line in reader:
    try:
        answer = repr(eval(line, {"os": os}))
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(answer, file=writer, flush=True)
