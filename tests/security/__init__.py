"""Findings of docs/spec/010 as stories, by their numbers: real daemons, and people who mean harm."""
