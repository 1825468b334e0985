"""Machines that this one is not: what their generators would say of them."""

from tessera.optimizations import Environment

_ACCELERATE = ("accelerate", "1.15.0")
_TRITON = ("triton", "3.5.0")

MACHINES = {
    "RTX 3080": (
        "cuda",
        Environment(
            probed=True,
            device_name="NVIDIA GeForce RTX 3080",
            compute_capability=(8, 6),
            torch_version="2.13.0",
            packages=(_ACCELERATE, _TRITON, ("xformers", "0.0.35")),
        ),
    ),
    "GTX 1660": (
        "cuda",
        Environment(
            probed=True,
            device_name="NVIDIA GeForce GTX 1660",
            compute_capability=(7, 5),
            torch_version="2.13.0",
            packages=(_ACCELERATE,),
        ),
    ),
    "RX 7900": (
        "cuda",
        Environment(
            probed=True,
            device_name="AMD Radeon RX 7900 XT",
            is_rocm=True,
            torch_version="2.13.0",
            packages=(_ACCELERATE, _TRITON),
        ),
    ),
    "M2": (
        "mps",
        Environment(
            probed=True,
            device_name="Apple M2",
            os="macos",
            os_version=(15, 1),
            torch_version="2.13.0",
            packages=(_ACCELERATE,),
        ),
    ),
    "DirectML": (
        "dml",
        Environment(
            probed=True,
            device_name="AMD Radeon RX 580",
            has_sdp=False,
            torch_version="1.13.1",
            packages=(_ACCELERATE,),
        ),
    ),
    "Arc A770": (
        "xpu",
        Environment(
            probed=True,
            device_name="Intel Arc A770",
            torch_version="2.13.0",
            packages=(_ACCELERATE, _TRITON, ("openvino", "2026.4.1")),
        ),
    ),
    "Xeon": (
        "cpu",
        Environment(
            probed=True,
            torch_version="2.13.0",
            packages=(_ACCELERATE,),
            cpu_flags=("avx512f", "avx512_bf16"),
            has_compiler=True,
        ),
    ),
    "old CPU": (
        "cpu",
        Environment(probed=True, torch_version="2.13.0", packages=(_ACCELERATE,)),
    ),
}
"""Kind of device and environment, by name."""
