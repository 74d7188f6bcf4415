"""Federation: free capacity of other clusters of the site, and jobs forwarded to them."""
