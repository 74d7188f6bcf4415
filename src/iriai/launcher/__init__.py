"""The launcher: the small privileged process that starts, limits, watches and reaps tasks."""

import iriai

iriai.load_msgspec()
