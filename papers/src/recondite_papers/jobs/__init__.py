"""The long computations behind the tables: each writes rows as it goes and can be resumed."""
