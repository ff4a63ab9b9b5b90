"""The tables people have: their columns read into values and written back, whatever they hold."""
