"""Talks to a boatswain driver, which keeps a distributed application's executors alive on Kubernetes."""

from boatswain.client import AsyncClient, BoatswainError, Client, Living, Unreachable
from boatswain.local import LocalBoatswain, binary
from boatswain.operations import Event, NewProfile

__all__ = [
    "AsyncClient",
    "BoatswainError",
    "Client",
    "Event",
    "Living",
    "LocalBoatswain",
    "NewProfile",
    "Unreachable",
    "binary",
]
