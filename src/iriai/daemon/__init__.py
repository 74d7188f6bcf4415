"""The daemon of one machine: the asyncio driver of the cores."""
