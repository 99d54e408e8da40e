"""Pages, tables and files for people."""
