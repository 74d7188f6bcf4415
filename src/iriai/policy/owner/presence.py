"""Whether the owner of a machine uses it (docs/spec/016, section 5). Times are steady ones."""

from __future__ import annotations

from math import inf

from iriai.model.owner import OwnerWord


class Presence:
    """From when on the machine is in use, and until when."""

    def __init__(self, continue_s: float) -> None:
        """A machine is in use for `continue_s` after the last sign."""
        self._continue_s = continue_s
        self.since_s: float | None = None
        """Since when it is in use; None: it is not."""
        self.last_s = -inf
        """When the last sign was that counted."""
        self.unseen_s = -inf
        """When somebody was there last, or may have been, though no sensor saw it: they took back
        `here`, it was over, or the machine woke."""
        self.word: OwnerWord | None = None
        self.word_until_s = inf
        """Until when the owner's word holds."""
        self.is_watched = False
        """Whether any sensor works; without one the machine is in use."""

    def sign(self, at_s: float, now_s: float) -> None:
        """Take in a sign; while the owner has said `away` none counts."""
        if self.word is not OwnerWord.AWAY or now_s >= self.word_until_s:
            self.last_s = max(self.last_s, min(at_s, now_s))
        self.look(now_s)

    def say(self, word: OwnerWord | None, until_s: float, now_s: float) -> None:
        """Take the owner's word, or without one go by signs again."""
        if self.word is OwnerWord.HERE:
            self.last_s = self.unseen_s = now_s  # who takes it back is here
        self.word, self.word_until_s = word, until_s
        if word is OwnerWord.AWAY:
            self.last_s = -inf
        self.look(now_s)

    def woke(self, now_s: float) -> None:
        """Begin anew, as at a sign: nobody knows who is there."""
        self.unseen_s = now_s
        self.sign(now_s, now_s)

    def watched(self, now_s: float, *, is_watched: bool) -> None:
        """Note whether any sensor works."""
        self.is_watched = is_watched
        self.look(now_s)

    def look(self, now_s: float) -> None:
        """Bring it up to date."""
        if self.word is not None and now_s >= self.word_until_s:
            if self.word is OwnerWord.HERE:
                self.last_s = max(self.last_s, self.word_until_s)
                self.unseen_s = max(self.unseen_s, self.word_until_s)
            self.word = None
        if self._is_in_use(now_s):
            if self.since_s is None:
                self.since_s = now_s
        else:
            self.since_s = None

    def _is_in_use(self, now_s: float) -> bool:
        if self.word is not None:
            return self.word is OwnerWord.HERE
        return not self.is_watched or now_s < self.last_s + self._continue_s

    def used_s(self, now_s: float) -> float | None:
        """Return for how long it is in use by now; None: it is not."""
        return None if self.since_s is None else max(0.0, now_s - self.since_s)

    @property
    def next_s(self) -> float:
        """Return when that may change though nothing is seen; infinite: never."""
        if self.word is not None:
            return self.word_until_s
        is_by_signs = self.since_s is not None and self.is_watched
        return self.last_s + self._continue_s if is_by_signs else inf
