"""Readers of calls whose parameters are raw text between tags."""
