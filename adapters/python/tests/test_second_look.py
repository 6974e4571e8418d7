"""What a driver that is starting says, and what is believed of it. No driver runs."""

import asyncio
import time

import httpx
import pytest

import boatswain
from boatswain import dask

NOT_ADOPTED = {"code": "not-adopted", "message": "the driver has not adopted its executors yet", "hint": "ask again"}


def starting(times):
    """A client of a driver that is starting for so many requests."""
    asked = []

    def answer(request):
        asked.append(request.url.path)
        if len(asked) <= times:
            return httpx.Response(503, json=NOT_ADOPTED, headers={"Retry-After": "1"})
        return httpx.Response(200, json={"executors": []})

    client = boatswain.Client("http://driver", timeout=3.0)
    client._http = httpx.Client(base_url="http://driver", transport=httpx.MockTransport(answer))
    return client, asked


def test_a_driver_that_starts_is_asked_again_when_it_says():
    driver, asked = starting(1)
    began = time.monotonic()
    assert driver.executors() == {"executors": []}
    assert time.monotonic() - began >= 1.0
    assert len(asked) == 2


def test_a_driver_that_does_not_adopt_its_executors_is_said_so():
    driver, asked = starting(9)
    with pytest.raises(boatswain.BoatswainError, match="not adopted its executors yet: ask again") as refused:
        driver.executors()
    assert (refused.value.status, refused.value.code) == (503, "not-adopted")
    assert len(asked) < 4


class Driver:
    """Answers with what a test gives, and counts the questions."""

    def __init__(self, *answers):
        self.answers, self.asked = list(answers), 0

    async def status(self):
        self.asked += 1
        if self.answers[0] is None:
            self.answers.pop(0)
            raise boatswain.BoatswainError("not adopted yet", 503)
        return {"adopted": self.answers[0] is not False or bool(self.answers.pop(0))}

    async def executors(self):
        return {"executors": [one(id) for id in self.answers.pop(0)]}


def one(id, state="running", profile="dask-a"):
    return {"executor": id, "profile": profile, "state": state}


def living(event, known, *answers, monkeypatch):
    """Which of these known workers live after a stream's first message, and how often the driver was asked for them."""
    monkeypatch.setattr(dask, "SECOND_LOOK", 0.001)
    cluster = object.__new__(dask.BoatswainCluster)
    cluster._groups, cluster._living, cluster._retired = {"dask-a": None}, dict.fromkeys(known, "dask-a"), {9}
    cluster._driver = Driver(*answers)
    return set(asyncio.run(cluster._confirmed({"ended": [], **event}))), cluster._driver.asked


def test_a_list_that_lacks_living_workers_is_not_believed(monkeypatch):
    told = living({"executors": []}, [1, 2, 3], [1, 2], monkeypatch=monkeypatch)
    assert told == ({1, 2}, 1)


def test_nothing_is_believed_before_the_adoption_or_without_an_answer(monkeypatch):
    told = living({"executors": []}, [1, 2], None, False, [1, 2], monkeypatch=monkeypatch)
    assert told == ({1, 2}, 3)


def test_what_the_message_explains_needs_no_second_look(monkeypatch):
    event = {"executors": [one(1), one(2, "leaving"), one(5, profile="other")], "ended": [{"executor": 3}]}
    assert living(event, [1, 2, 3, 9], monkeypatch=monkeypatch) == ({1}, 0)
