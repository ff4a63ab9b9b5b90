"""Pictures and pages of how an agent plays and learns."""
