"""Machines that fail tasks: whose fault a failure is, and who is given nothing for a while."""
