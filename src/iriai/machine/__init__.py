"""iriai.machine"""
