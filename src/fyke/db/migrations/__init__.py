"""The core tables' migrations: forward only, one file a step, named by its number. Loaded by alembic alone."""
