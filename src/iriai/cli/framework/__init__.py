"""Options, errors, tables and completion of all commands, on top of Typer."""
