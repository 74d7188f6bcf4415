"""Connections to a daemon, for programs and for the command line.

from iriai.client import Client, draft

with Client.connect() as client:
    job = client.submit(draft(["./analyse.sh"], cpus=2, time_limit_s=3600))
    [outcome] = client.wait([job.id])
"""

from iriai.client.client import Client
from iriai.client.connection import JobWait
from iriai.client.job_builder import draft, encode_environment
from iriai.client.rpc_channel import ConnectionLost

__all__ = ["Client", "ConnectionLost", "JobWait", "draft", "encode_environment"]
