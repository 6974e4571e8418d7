"""A boatswain on this machine, with its embedded cluster: each executor is a process."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time

from boatswain.client import BoatswainError

# Seconds.
START = 30.0
END = 20.0
# Without a call for this long the executors are held, and after twice this long the driver ends: so nothing stays
# behind where this process was killed. Whoever starts a local boatswain calls it at least three times as often.
TTL = 30.0


def binary() -> str:
    """The program boatswain: $BOATSWAIN, the one that came with this package, or the one in PATH."""
    beside = pathlib.Path(sysconfig.get_path("scripts")) / "boatswain"
    found = os.environ.get("BOATSWAIN") or (str(beside) if beside.exists() else shutil.which("boatswain"))
    if not found:
        raise BoatswainError("there is no program boatswain", hint="install the wheel of this package, or set BOATSWAIN")
    return found


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class LocalBoatswain:
    """Starts boatswain; ends it and its executors on `close`."""

    def __init__(self, name: str = "local") -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="boatswain-", ignore_cleanup_errors=True)
        home = pathlib.Path(self._directory.name)
        self.token_file = home / "token"
        self.log_file = home / "boatswain.log"
        config = home / "boatswain.toml"
        quoted = json.dumps
        config.write_text(
            "\n".join(
                [
                    f'app = {{ name = {quoted(name)}, ttl = "{TTL:.0f}s" }}',
                    f'cluster.mode = "embedded"\nembedded.state_dir = {quoted(str(home / "state"))}',
                    'profiles.default = { executors = 0, command = ["/bin/true"] }',
                    # The engine says which executors are to go.
                    'allocation.scale_down = "pending-only"',
                    f'api = {{ listen = "127.0.0.1:0", token_file = {quoted(str(self.token_file))} }}',
                    f'backend = {{ listen = "127.0.0.1:{_free_port()}", registration = "optional", auth = "derived", '
                    f"key_file = {quoted(str(home / 'key'))} }}",
                    'log.format = "json"',
                    "",
                ]
            )
        )
        with self.log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [binary(), "run", "--config", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                # Ctrl-C in a terminal is for the engine, which ends boatswain in order.
                start_new_session=True,
            )
        self.server = f"http://{self._address()}"

    def _address(self) -> str:
        until = time.monotonic() + START
        while time.monotonic() < until:
            for line in self.log_file.read_text(errors="replace").splitlines():
                if '"the API is listening"' in line:
                    return str(json.loads(line)["address"])
            if self._process.poll() is not None:
                break
            time.sleep(0.05)
        log = self.log_file.read_text(errors="replace")
        self.close()
        raise BoatswainError(f"the local boatswain did not start:\n{log}")

    def close(self) -> None:
        """Ends the driver, which ends its executors."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(END)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._directory.cleanup()
