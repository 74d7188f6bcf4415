"""All kinds of which tasks wait, by their shapes, and which of them may fit anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iriai.broker.queue.entries import TaskClass, TaskClassKey
from iriai.broker.queue.shape_index import Mask, ShapeIndex, bins_of


class TaskClasses:
    """All kinds of which tasks wait."""

    def __init__(self) -> None:
        self.shapes = ShapeIndex()
        self._kinds: dict[TaskClassKey, TaskClass] = {}
        self._of_shape: dict[int, dict[TaskClass, None]] = {}
        """By position of the shape."""
        self._unsettled: dict[TaskClass, None] = {}
        self._shapes: dict[int, int] = {}
        """By position: how many kinds of that shape are not settled."""
        self.unsettled: Mask = 0
        """The shapes of those."""

    def __iter__(self) -> Iterator[TaskClass]:
        return iter(list(self._kinds.values()))

    def get(self, key: TaskClassKey) -> TaskClass | None:
        """The kind with that key, where some of it wait."""
        return self._kinds.get(key)

    def make(self, key: TaskClassKey) -> TaskClass:
        """A new kind, impossible until somebody says otherwise."""
        together = 0 if key.exclusive else -1
        position = self.shapes.acquire(bins_of(key.resources, key.stay_s, together))
        kind = self._kinds[key] = TaskClass(key, position)
        self._of_shape.setdefault(position, {})[kind] = None
        return kind

    def like(self, kind: TaskClass) -> Iterable[TaskClass]:
        """All of its shape, itself among them."""
        return self._of_shape[kind.position]

    def forget(self, kind: TaskClass) -> None:
        """Nothing of it waits any more."""
        self.found_unplaceable(kind)
        self.shapes.release(kind.position)
        alike = self._of_shape[kind.position]
        del alike[kind]
        if not alike:
            del self._of_shape[kind.position]
        del self._kinds[kind.key]
        if kind.demand is not None:
            kind.demand.leave()

    def unsettle(self, kind: TaskClass) -> None:
        """It may fit anywhere, as far as is known."""
        kind.looked = -1
        if kind.is_settled:
            kind.is_settled = False
            self._unsettled[kind] = None
            self._shapes[kind.position] = self._shapes.get(kind.position, 0) + 1
            self.unsettled |= kind.bit

    def found_unplaceable(self, kind: TaskClass) -> None:
        """It fits nowhere but perhaps on machines with new room."""
        if not kind.is_settled:
            kind.is_settled = True
            del self._unsettled[kind]
            self._shapes[kind.position] -= 1
            if not self._shapes[kind.position]:
                del self._shapes[kind.position]
                self.unsettled ^= kind.bit

    def found_all_unplaceable(self) -> None:
        """No machine is open: none fits anywhere."""
        for kind in self._unsettled:
            kind.is_settled = True
        self._unsettled.clear()
        self._shapes.clear()
        self.unsettled = 0
