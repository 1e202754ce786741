"""Contract suites and tools for tests, shipped for users: a back end of your own inherits every test."""
