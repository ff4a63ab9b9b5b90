"""The commands of `relax-plugin`, one file each: `add` describes its arguments, `run` does it and gives an exit code."""
