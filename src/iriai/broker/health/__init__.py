"""Attribution of failures to machines or jobs, and back-off of failing machines."""
