"""The commands of `relax-plugin`, one a file: `add` describes its arguments, `run` does it and gives an exit code."""
