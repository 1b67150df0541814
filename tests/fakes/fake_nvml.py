"""A stand-in for the module pynvml: its own constants, error classes and structures, with answers that a test gives."""

from __future__ import annotations

from types import SimpleNamespace

import pynvml

NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
ERROR_CODES = sorted(
    {value for name, value in vars(pynvml).items() if name.startswith("NVML_ERROR_") and isinstance(value, int)}
)
H200_ANSWERS = {
    "nvmlDeviceGetName": "NVIDIA H200",
    "nvmlDeviceGetCudaComputeCapability": (9, 0),
    "nvmlDeviceGetPowerUsage": 140_500,
    "nvmlDeviceGetTotalEnergyConsumption": 2_500_000,
    "nvmlDeviceGetClockInfo": 1830,
    "nvmlDeviceGetMaxClockInfo": 1980,
    "nvmlDeviceGetApplicationsClock": 1980,
    "nvmlDeviceGetDefaultApplicationsClock": 1980,
    "nvmlDeviceGetTemperature": 61,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=97, memory=40),
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=5 * 2**30, total=141 * 2**30, free=136 * 2**30),
    "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x4,
    "nvmlDeviceGetComputeRunningProcesses": [],
    "nvmlSystemGetDriverVersion": "580.65.06",
    "nvmlSystemGetCudaDriverVersion": 13000,
    "nvmlDeviceGetUUID": "GPU-abc",
    "nvmlDeviceGetVbiosVersion": "96.00.99.00.01",
    "nvmlDeviceGetPowerManagementLimit": 700_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    "nvmlDeviceGetEnforcedPowerLimit": 700_000,
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetEccMode": [1, 1],
    "nvmlDeviceGetMigMode": [0, 0],
    "nvmlDeviceGetCurrPcieLinkGeneration": 5,
    "nvmlDeviceGetMaxPcieLinkGeneration": 5,
    "nvmlDeviceGetCurrPcieLinkWidth": 16,
    "nvmlDeviceGetMaxPcieLinkWidth": 16,
    "nvmlDeviceGetViolationStatus": SimpleNamespace(referenceTime=1, violationTime=3_000_000_000),
}
_GB10_TELLS = (
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetMigMode",
)
GB10_ANSWERS = {name: H200_ANSWERS[name] for name in _GB10_TELLS} | {
    "nvmlDeviceGetName": "NVIDIA GB10",
    "nvmlDeviceGetCudaComputeCapability": (12, 1),
    "nvmlDeviceGetPowerUsage": 38_000,
    "nvmlDeviceGetTemperature": 58,
    "nvmlDeviceGetClockInfo": lambda kind: 2411 if kind != pynvml.NVML_CLOCK_MEM else _refuse(),
    "nvmlDeviceGetMaxClockInfo": 3003,
}
"""What NVML tells of a GB10: no memory totals, no memory clock, no power limit, no application clocks, no counters of
throttling.
"""
ULL, UINT = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
H200_FIELDS = {
    186: (UINT, 139_000), 185: (UINT, 150_000), 74: (ULL, 2_000_000_000), 75: (ULL, 0), 76: (ULL, 0),
    251: (ULL, 500_000_000), 252: (ULL, 0), 253: (ULL, 0),
}  # fmt: skip
_MEMBERS = {0: "dVal", 1: "uiVal", 2: "ulVal", 3: "ullVal", 4: "sllVal", 5: "siVal", 6: "usVal"}


class FakeNvml:
    """pynvml with the functions a test answers; what is not answered is not supported, as GB10 says of its memory.

    An answer may be a value, an exception (raised), an int error code given as `error(code)`, or a function of the
    arguments after the handle. `fields` maps a field, or (field, scope), to (value type, value) or an error code.
    """

    def __init__(self, answers=None, fields=None, missing=()):
        self.answers = dict(answers or {})
        self.fields = dict(fields or {})
        self.missing = set(missing)
        self.calls = []

    @classmethod
    def h200(cls, **changes):
        return cls(H200_ANSWERS | changes, H200_FIELDS)

    @classmethod
    def gb10(cls, **changes):
        """Return one that answers as a GB10 does: its own power and clocks, and nothing of memory, limits or fields."""
        return cls(GB10_ANSWERS | changes, {186: (UINT, 38_000), 185: (UINT, 40_000)})

    def __getattr__(self, name):
        if name in self.__dict__.get("missing", ()):
            raise AttributeError(f"module 'pynvml' has no attribute {name!r}")
        if not name.startswith("nvml"):
            return getattr(pynvml, name)
        if not hasattr(pynvml, name):
            raise AttributeError(f"the real pynvml has no function {name!r} either")
        return lambda *arguments: self._call(name, arguments)

    def _call(self, name, arguments):
        self.calls.append(name)
        answer = self.answers.get(name, error(NOT_SUPPORTED))
        if name == "nvmlDeviceGetFieldValues" and name not in self.answers:
            return self._field_values(arguments[1])
        if isinstance(answer, BaseException):
            raise answer
        return answer(*arguments[1:]) if callable(answer) else answer

    def _field_values(self, ids):
        values = (pynvml.c_nvmlFieldValue_t * len(ids))()
        for value, key in zip(values, ids, strict=True):
            value.fieldId, value.scopeId = (key, 0) if isinstance(key, int) else key
            answer = self.fields.get(key, NOT_SUPPORTED)
            answer = answer() if callable(answer) else answer
            if isinstance(answer, int):
                value.nvmlReturn = answer
            else:
                value.valueType = answer[0]
                setattr(value.value, _MEMBERS.get(answer[0], "ullVal"), answer[1])
        return values

    def reset(self):
        self.calls.clear()


def _refuse():
    raise pynvml.NVMLError(NOT_SUPPORTED)


def error(code):
    """The library's own exception for a code, of its own subclass."""
    return pynvml.NVMLError(code)


def process(pid):
    return SimpleNamespace(pid=pid, usedGpuMemory=None)
