"""iriai.client"""
