"""`iriai top`: a live view of machines, queues, shares and jobs."""
