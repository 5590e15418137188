"""Utilisation of a card while something runs, as NVIDIA's management library tells it."""

import ctypes
import statistics
import threading
from types import TracebackType

_EVERY_S = 0.05


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Utilization:
    """Samples the first card's utilisation while it is open; `percent` is None without NVIDIA's library."""

    percent: float | None = None

    def __init__(self) -> None:
        self._library: ctypes.CDLL | None = None
        try:
            self._library = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            return
        self._done, self._samples = threading.Event(), list[int]()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> "Utilization":
        if self._library is not None:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._library is not None:
            self._done.set()
            self._thread.join()
            self.percent = statistics.mean(self._samples) if self._samples else None

    def _sample(self) -> None:
        assert self._library is not None
        device, told = ctypes.c_void_p(), _Utilization()
        if self._library.nvmlInit_v2() or self._library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)):
            return
        while not self._done.wait(_EVERY_S):
            if self._library.nvmlDeviceGetUtilizationRates(device, ctypes.byref(told)) == 0:
                self._samples.append(told.gpu)
