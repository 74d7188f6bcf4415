"""Other clusters of the site: what they have room for, and jobs that are passed on to them."""
