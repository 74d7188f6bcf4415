"""Documents that operators sign: configuration, rosters, revocations."""
