"""Findings of docs/spec/010 as stories, by number: real daemons, and people who mean harm."""
