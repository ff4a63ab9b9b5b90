"""A fitted explainer on its way to other processes, where it stays warm: it is unpacked once in each of them."""

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

import cloudpickle

from relax_plugin.base import CounterfactualExplainer, fitted
from relax_plugin.errors import InputError, SavedFileError
from relax_plugin.locks import fork_safe_lock

KEPT_WARM = 4  # explainers in a process; a cluster serves several callers

_warm: OrderedDict[str, CounterfactualExplainer] = OrderedDict()
_unpacking = fork_safe_lock()


@dataclass(frozen=True)
class Shipped:
    """An explainer with its model, packed: in `content`, or in a file of this content.

    It is a pickle, since the model is code anyway. A file is unpacked only if it is the one that was packed.
    """

    digest: str
    content: bytes | None = None
    path: Path | None = None

    @classmethod
    def of(cls, explainer: CounterfactualExplainer) -> "Shipped":
        """The explainer, packed for other processes."""
        try:
            content: bytes = cloudpickle.dumps(fitted(explainer))
        except Exception as error:  # whatever a foreign model raises
            raise InputError(
                f"the explainer cannot be sent to other processes, since its model, a {type(explainer.model).__name__}"
                f", cannot be pickled: {type(error).__name__} {error}."
            ) from error
        return cls(hashlib.sha256(content).hexdigest(), content)

    def in_file(self, path: Path) -> "Shipped":
        """The same in a file, for processes that see the same disk: the content is then not sent with each part."""
        assert self.content is not None
        path.write_bytes(self.content)
        return Shipped(self.digest, path=path)

    def explainer(self) -> CounterfactualExplainer:
        """The explainer, unpacked where this process has not done so before."""
        with _unpacking:
            if self.digest in _warm:
                _warm.move_to_end(self.digest)
                return _warm[self.digest]
            content = self.content
            if content is None:
                assert self.path is not None
                content = self.path.read_bytes()
                if hashlib.sha256(content).hexdigest() != self.digest:
                    raise SavedFileError(f"{self.path} is not the explainer that was sent; nothing of it is used.")
            made: CounterfactualExplainer = cloudpickle.loads(content)
            _warm[self.digest] = made
            while len(_warm) > KEPT_WARM:
                _warm.popitem(last=False)
            return made
