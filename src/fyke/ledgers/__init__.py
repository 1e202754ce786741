"""Ledgers: the truth in a database. Each passes `fyke.testing.LedgerContract`."""
