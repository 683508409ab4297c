"""Bridges to other frameworks. Each is imported by its own name and needs an extra of its own."""
