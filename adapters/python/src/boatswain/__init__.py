"""Talks to a boatswain driver, which keeps a distributed application's executors alive on Kubernetes."""

from boatswain.client import AsyncClient, BoatswainError, Client, Unreachable
from boatswain.local import LocalBoatswain, binary

__all__ = ["AsyncClient", "BoatswainError", "Client", "LocalBoatswain", "Unreachable", "binary"]
