"""One machine's durable memory: jobs, their events, the history, claims and the ledger."""

from iriai.store.sqlite import StoreFailure
from iriai.store.store import Store
from iriai.store.writer import Writer

__all__ = ["Store", "StoreFailure", "Writer"]
