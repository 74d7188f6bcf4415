"""iriai.home"""
