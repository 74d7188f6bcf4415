"""One machine's durable memory: jobs, their events, the history, claims and the ledger."""

from iriai.store.problems import StoreFailure
from iriai.store.store import Store

__all__ = ["Store", "StoreFailure"]
