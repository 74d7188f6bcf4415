"""iriai.broker"""
