"""Options, errors, tables and completion of all commands; Typer for what is rare."""
