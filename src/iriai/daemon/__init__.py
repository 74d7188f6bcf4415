"""The daemon of one machine: the asyncio driver of the cores."""

import iriai

iriai.load_msgspec()
