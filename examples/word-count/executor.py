"""An executor of the word count: asks for a piece of text, counts its words, hands the counts in, asks again.

It does not speak to boatswain: the agent, whose child it is, does that for it.
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


def main():
    while True:
        piece = ask("/piece")
        if piece["piece"] is None:
            time.sleep(0.1)
            continue
        words = re.findall(r"[a-z]+", piece["text"].lower())
        # As if it were hard work.
        time.sleep(piece["effort"])
        ask("/counts", piece=piece["piece"], counts=collections.Counter(words))


if __name__ == "__main__":
    main()
