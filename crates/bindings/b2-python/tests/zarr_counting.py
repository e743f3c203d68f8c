"""A store of zarr-python that counts."""

import asyncio

from zarr.storage import WrapperStore


class Counting(WrapperStore):
    """Counts requests, their bytes, and the rounds in which they were awaited."""

    # zarr-python would otherwise read from the store inside without asking this one.
    _supports_sync_io = False

    def __init__(self, store):
        super().__init__(store)
        self.reset()
        self._open = 0

    def reset(self):
        self.requests, self.bytes, self.rounds = [], 0, 0

    async def get(self, key, prototype, byte_range=None):
        if self._open == 0:
            self.rounds += 1
        self._open += 1
        try:
            await asyncio.sleep(0.002)
            found = await super().get(key, prototype, byte_range)
        finally:
            self._open -= 1
        self.requests.append((key, byte_range))
        self.bytes += 0 if found is None else len(found)
        return found
