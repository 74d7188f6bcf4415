"""iriai.node"""
