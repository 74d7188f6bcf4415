"""The documentation as a site: pages generated from the code, and all of them through Sphinx."""
