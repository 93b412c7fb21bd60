"""What the control plane remembers: SQLAlchemy tables, and one module of reads and writes for each subject."""
