"""What a proof needs of a model: its parts are those of its library, and it answers probe rows as it was read."""
