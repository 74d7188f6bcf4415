"""`iriai top`: a live view of machines, queues, shares, gangs and jobs."""
