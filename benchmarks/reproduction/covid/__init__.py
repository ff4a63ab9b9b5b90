"""The COVID-19 case study."""
