"""One file for each schema number."""
