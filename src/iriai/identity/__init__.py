"""iriai.identity"""
