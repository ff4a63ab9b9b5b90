"""An extension of griffe: the parameters that an explainer declares stand on its page, as its docstring has them."""

from typing import Any

import griffe


class Parameters(griffe.Extension):  # type: ignore[misc]
    """Classes that declare parameters are imported for their docstring."""

    def on_class(self, *, cls: griffe.Class, **_: Any) -> None:
        if cls.docstring and any(
            str(one.callable_path).startswith("relax_plugin.parameters.") for one in cls.decorators
        ):
            cls.docstring.value = str(griffe.dynamic_import(cls.path).__doc__)
