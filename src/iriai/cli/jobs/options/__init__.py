"""Options of run and submit, scripts and their directives."""
