"""Errors after which a CUDA context is lost: every later call in the process fails, so the process must be replaced."""

from __future__ import annotations

_LOST = (
    "device-side assert",
    "illegal memory access",
    "unspecified launch failure",
    "an illegal instruction",
    "misaligned address",
    "launch timed out",
    "device lost",
    "uncorrectable ECC",
    "hardware stack error",
    "invalid program counter",
    "context is destroyed",
    "cudaErrorIllegalAddress",
    "CUBLAS_STATUS_EXECUTION_FAILED",
    "CUDNN_STATUS_EXECUTION_FAILED",
    "unknown error",
)
_HARMLESS = (
    "out of memory",
    "no kernel image",
    "invalid argument",
    "invalid configuration argument",
    "invalid device function",
    "not supported",
    "too many resources requested",
    "invalid device ordinal",
    "no CUDA-capable device",
)
_OF_A_DEVICE = ("CUDA", "cuda", "HIP", "CUBLAS", "CUDNN", "device lost")
_MAX_CHAIN = 10


def lost_device_reason(error: BaseException) -> str | None:
    """Return the first line of an error that has cost the process its device, else None. Looks at its causes too.

    Sources: the CUDA runtime's list of errors that "leave the process in an inconsistent state"; torch raises them as
    `RuntimeError` or `torch.AcceleratorError`. An `AcceleratorError` that is not known to be harmless counts as lost.
    """
    visited: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in visited and len(visited) < _MAX_CHAIN:
        text = _text(current)
        is_of_device = isinstance(current, RuntimeError) and any(word in text for word in _OF_A_DEVICE)
        if is_of_device and any(part in text for part in _LOST):
            return text.strip().splitlines()[0][:200]
        if type(current).__name__ == "AcceleratorError" and not any(part in text for part in _HARMLESS):
            return (text.strip().splitlines() or ["AcceleratorError"])[0][:200]
        visited.append(current)
        current = current.__cause__ or current.__context__
    return None


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # an exception that cannot even say what it is
        return ""
