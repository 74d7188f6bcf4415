"""ClassAd requirements of jobs and machines, matched with each other."""
