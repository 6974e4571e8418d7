"""Runs the scenarios of scenarios.py, each in a process of its own, with a time limit; prints what failed and its logs.

    python3 run.py JAR [SCENARIO …]
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import scenarios

HERE = pathlib.Path(__file__).resolve().parent
# Seconds for one scenario; the slowest takes about 90 on two cores, and the one that is run by name only about 600.
LIMIT = 240
LIMIT_BY_NAME = 1800
SHOWN = 60
# What a scenario says, among Spark's own lines.
SAID = re.compile(r"\d\d:\d\d:\d\d ")


def kill_all(mark):
    """Ends all that a scenario started, also what left its process group (boatswain does, by setsid)."""
    for pid in marked(mark):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


def marked(mark):
    """The processes of one scenario."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def run(name, jar):
    """Returns what is wrong, or None."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix=f"spark-{name}-"))
    # In the environment of all that it starts; executors have it as the root of their files.
    mark = str(directory)
    log = directory / "log"
    environment = dict(os.environ, BOATSWAIN_SPARK_TEST=mark, SPARK_LOCAL_DIRS=str(directory), TMPDIR=str(directory))
    limit = LIMIT if name in scenarios.ALL else LIMIT_BY_NAME
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "scenarios.py"), name, str(jar), str(directory)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
        )
        try:
            code = process.wait(limit)
            wrong = None if code == 0 else f"exit code {code}"
        except subprocess.TimeoutExpired:
            wrong = f"not done within {limit} s"
        finally:
            # A moment for processes that are ending.
            until = time.monotonic() + 5
            while (left := marked(mark)) and time.monotonic() < until:
                time.sleep(0.1)
            kill_all(mark)
            process.wait()
    if wrong is None and left:
        wrong = f"{len(left)} processes were left behind"
    print(f"{name}: {wrong or 'passed'} ({time.monotonic() - began:.0f} s)", flush=True)
    if wrong:
        for file in [log, *directory.glob("*.log")]:
            print(f"--- {file.name}, its end", *file.read_text(errors="replace").splitlines()[-SHOWN:], sep="\n")
        print(f"--- all of it is in {directory}", flush=True)
    else:
        if name in scenarios.BY_NAME:
            print(*(line for line in log.read_text(errors="replace").splitlines() if SAID.match(line)), sep="\n", flush=True)
        shutil.rmtree(directory, ignore_errors=True)
    return wrong


def main():
    # What was started is ended on the way out.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    jar = pathlib.Path(sys.argv[1])
    wanted = sys.argv[2:] or list(scenarios.ALL)
    for name in wanted:
        if name not in scenarios.ALL | scenarios.BY_NAME:
            sys.exit(f"no scenario {name}; there are: {' '.join(scenarios.ALL | scenarios.BY_NAME)}")
    failed = [name for name in wanted if run(name, jar)]
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)


main()
