"""Experiments in virtual time: those of paper 000, and many machines without a head."""
