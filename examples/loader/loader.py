"""Batches of a file, one after the other."""


class Loader:
    """Batches of `batch_bytes` from a file, until it ends. A pipe or a file server may keep it waiting."""

    def __init__(self, path, batch_bytes):
        self.path = path
        self._batch_bytes = batch_bytes
        self._file = open(path, "rb")

    def __iter__(self):
        return self

    def __next__(self):
        batch = self._file.read(self._batch_bytes)
        if len(batch) < self._batch_bytes:
            raise StopIteration
        return batch
