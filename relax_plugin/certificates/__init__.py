"""Certificates: an answer with what is claimed of it as plain data, which other code checks again."""
