"""The steps from each schema to the next, run by Alembic; imported only when a database is older than this program."""
