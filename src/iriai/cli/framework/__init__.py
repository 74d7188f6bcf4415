"""What all commands share: options, errors, tables, completion, on top of Typer."""
