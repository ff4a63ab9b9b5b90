"""Answers as people read them: words, sentences, records for a web client, tables of a notebook."""
