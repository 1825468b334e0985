"""What is offered before and after the device is known."""

import pytest
from tessera.generator_process.messages import Ready
from tessera.optimization_machine import computing, machine_of
from tessera.optimizations import Environment


@pytest.mark.parametrize(
    ("system", "devices"),
    [
        ("darwin", ("mps", "cpu")),
        ("win32", ("cuda", "xpu", "dml", "cpu")),
        ("linux", ("cuda", "xpu", "cpu")),
        ("freebsd14", ("cuda", "xpu", "cpu")),
    ],
)
def test_before_the_generator_has_started(system, devices):
    machine = machine_of(None, system)
    assert (machine.devices, machine.device, machine.is_known) == (devices, None, False)
    assert machine.shows("attention.xformers") is ("cuda" in devices)
    assert machine.why_not("attention.xformers") == "", "nobody knows yet"
    assert machine.text == "The device is known after the first generation"


def test_when_it_has_started():
    ready = Ready(
        device="cpu", device_name="CPU, no GPU", versions=(), environment=Environment(probed=True)
    )
    machine = machine_of(ready, "linux")
    assert (machine.device, machine.text) == ("cpu", "CPU, no GPU")
    assert not machine.shows("tf32")
    assert machine.why_not("engine.openvino").endswith("openvino, which is not installed.")


def test_the_cpu_is_judged_when_it_has_to_compute():
    ready = Ready(device="cuda", device_name="RTX", versions=())
    machine = machine_of(ready, "linux")
    assert computing(machine, "tf32", cpu_only=False) is machine
    assert computing(machine, "tf32", cpu_only=True).devices == ("cpu",)
    assert computing(machine, "cpu_only", cpu_only=True) is machine, "else it could not be left"
    unknown = computing(machine_of(None, "linux"), "tf32", cpu_only=True)
    assert (unknown.devices, unknown.is_known) == (("cpu",), False)
