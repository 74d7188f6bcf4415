"""What operators sign: cluster documents, rosters, revocations."""
