"""The journal in an SQLite file: all of its SQL, and nothing that another database would share."""
