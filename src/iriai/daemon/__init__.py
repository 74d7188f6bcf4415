"""The daemon of one machine, and what is around it: the drivers of the cores."""
