"""An executor of the word count: asks for a piece of text, counts its words, hands the counts in, asks again.

It does not speak to boatswain: the agent, whose child it is, does that for it. It only tells the agent, in a file,
whether it has work.
"""

import collections
import json
import os
import re
import time
import urllib.error
import urllib.request

APPLICATION = os.environ["WORD_COUNT_URL"]
EXECUTOR = int(os.environ["BOATSWAIN_EXECUTOR_ID"])


def ask(path, **fields):
    """Posts to the application, and returns what it answers."""
    body = json.dumps({"executor": EXECUTOR, "pid": os.getpid(), **fields}).encode()
    request = urllib.request.Request(APPLICATION + path, body)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def is_busy(slots):
    """Tells the agent how many slots have work; under the right name there is always all of it."""
    file = os.environ.get("BOATSWAIN_STATUS_FILE")
    if file:
        with open(file + ".new", "w") as new:
            json.dump({"busy_slots": slots}, new)
        os.replace(file + ".new", file)


def main():
    while True:
        piece = ask("/piece")
        if piece["piece"] is None:
            is_busy(0)
            time.sleep(0.1)
            continue
        is_busy(1)
        words = re.findall(r"[a-z]+", piece["text"].lower())
        # As if it were hard work.
        time.sleep(piece["effort"])
        ask("/counts", piece=piece["piece"], counts=collections.Counter(words))


if __name__ == "__main__":
    main()
