"""What alembic runs: all missing steps on the connection that it was given, inside the caller's transaction."""

from alembic import context

context.configure(connection=context.config.attributes["connection"], transaction_per_migration=False)
context.run_migrations()
