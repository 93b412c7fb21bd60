"""NVIDIA devices, asked of the driver's own library without CUDA."""

from __future__ import annotations

import ctypes
from contextlib import suppress
from typing import Any

from gpulayer.spec.workers import Device

_GB = 1e9
_TEXT = 96


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def devices() -> tuple[Device, ...]:
    """Return the devices of this machine by their index; none where there is no driver."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return ()
    if library.nvmlInit_v2() != 0:
        return ()
    try:
        count = ctypes.c_uint()
        library.nvmlDeviceGetCount_v2(ctypes.byref(count))
        found = [_device(library, index) for index in range(count.value)]
        return tuple(device for device in found if device is not None)
    finally:
        library.nvmlShutdown()


def visible(found: tuple[Device, ...], narrowed: str | None) -> tuple[Device, ...]:
    """Keep what CUDA_VISIBLE_DEVICES shows: as CUDA does, it stops at the first word that names no device."""
    if narrowed is None:
        return found
    kept: list[Device] = []
    for word in narrowed.split(","):
        named = [device for device in found if _names(word.strip(), device)]
        if len(named) != 1:
            break
        kept.append(named[0])
    return tuple(dict.fromkeys(kept))


def _names(word: str, device: Device) -> bool:
    return device.index == int(word) if word.isdigit() else len(word) > 4 and device.uuid.startswith(word)


def _device(library: Any, index: int) -> Device | None:
    handle = ctypes.c_void_p()
    if library.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) != 0:
        return None
    memory = _Memory()
    major, minor = ctypes.c_int(), ctypes.c_int()
    known_memory = library.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)) == 0
    known_capability = library.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor)) == 0
    return Device(
        uuid=_text(library.nvmlDeviceGetUUID, handle) or f"index-{index}",
        kind="cuda",
        index=index,
        name=_text(library.nvmlDeviceGetName, handle),
        memory_gb=round(memory.total / _GB, 3) if known_memory else None,
        compute_capability=f"{major.value}.{minor.value}" if known_capability else None,
    )


def _text(ask: Any, handle: ctypes.c_void_p) -> str:
    text = ctypes.create_string_buffer(_TEXT)
    with suppress(UnicodeDecodeError):
        if ask(handle, text, _TEXT) == 0:
            return text.value.decode()
    return ""
