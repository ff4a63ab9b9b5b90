"""Tables as the content of files: CSV, Parquet and Arrow."""

from io import BytesIO
from typing import Any

import pandas as pd

from relax_plugin.errors import InputError, MissingExtraError


def parquet_bytes(table: pd.DataFrame) -> bytes:
    """A table as a Parquet file, which holds texts as texts and gaps as gaps."""
    try:
        content: bytes = table.to_parquet(engine="pyarrow", index=False)
    except (ValueError, TypeError) as error:  # those of pyarrow
        raise InputError(f"the counterfactuals cannot be written as Parquet: {error}; write a .json.") from error
    return content


def arrow_bytes(table: pd.DataFrame) -> bytes:
    """A table as an Arrow file of record batches, which Feather is too."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError(
            "an Arrow file needs pyarrow, which is not installed: pip install 'relax-plugin[parquet]'."
        ) from error
    sink: Any = BytesIO()
    try:
        content = pyarrow.Table.from_pandas(table, preserve_index=False)
    except (ValueError, TypeError) as error:
        raise InputError(f"the counterfactuals cannot be written as Arrow: {error}; write a .json.") from error
    with pyarrow.ipc.new_file(sink, content.schema) as file:
        file.write_table(content)
    written: bytes = sink.getvalue()
    return written
