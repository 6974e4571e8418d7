import os
import pathlib
import signal
import socket
import subprocess
import time

import pytest

import boatswain


def until(what, condition, seconds=60):
    """Waits for a true value and returns it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def processes(part):
    """The ids of the processes that have this part in their command line, without the agents around them."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit():
                continue
            line = (entry / "cmdline").read_bytes()
            if part.encode() in line and b"agent" not in line.split(b"\0")[:2]:
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def kill_one(part, rng):
    if found := processes(part):
        os.kill(rng.choice(found), signal.SIGKILL)


@pytest.fixture
def local():
    driver = boatswain.LocalBoatswain()
    yield driver
    driver.close()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Apart:
    """A driver on a cluster of its own."""

    def __init__(self, directory):
        self.directory, port = directory, free_port()
        self.address, self.token_file = f"127.0.0.1:{free_port()}", directory / "token"
        settings = [
            'profiles.default = { executors = 0, command = ["/bin/true"] }',
            f'cluster.kubeconfig = "{directory}/kubeconfig"',
            'allocation.scale_down = "pending-only"',
            f'api = {{ listen = "{self.address}", token_file = "{self.token_file}" }}',
        ]
        (directory / "boatswain.toml").write_text("\n".join(settings) + "\n")
        options = ["--token-file", f"{directory}/cluster-token", "--kubeconfig", f"{directory}/kubeconfig"]
        options += ["--state-dir", f"{directory}/state"]
        self.cluster = self._start("dev-cluster", "--listen", f"127.0.0.1:{port}", *options)
        until("the cluster is there", (directory / "kubeconfig").exists)
        self.driver = self._run()

    def _start(self, *arguments):
        with (self.directory / f"{arguments[0]}.log").open("ab") as log:
            return subprocess.Popen([os.environ["BOATSWAIN"], *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def _run(self):
        return self._start("run", "--config", str(self.directory / "boatswain.toml"))

    def restart(self):
        self.driver.kill()
        self.driver.wait()
        self.driver = self._run()

    def close(self):
        for process in (self.driver, self.cluster):
            process.terminate()
            process.wait(60)


@pytest.fixture
def apart(tmp_path: pathlib.Path):
    driver = Apart(tmp_path)
    yield driver
    driver.close()
