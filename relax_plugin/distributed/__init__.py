"""Tables larger than a machine: explained part by part, on the partitions of a Dask DataFrame or on those of files."""

from relax_plugin.distributed.frames import explain

__all__ = ["explain"]
