"""The studio: a web application on this machine that builds, shows, compares and verifies networks."""
