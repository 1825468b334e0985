# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients of the generator that are closed, whatever the test does."""

import threading

import pytest
from fakes.clients import (
    command,
)
from tessera.generator_process.client import GeneratorProcess


@pytest.fixture
def make_client(tmp_path):
    """Make clients that are closed at the end, with no thread or process left."""
    clients = []
    before = set(threading.enumerate())

    def make(*, start_timeout_s=60.0, **values):
        clients.append(
            GeneratorProcess(command(tmp_path, **values), start_timeout_s=start_timeout_s)
        )
        return clients[-1]

    yield make
    for client in clients:
        client.close()
    assert set(threading.enumerate()) <= before


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One client for the tests that leave its process alive."""
    client = GeneratorProcess(command(tmp_path_factory.mktemp("shared")))
    yield client
    client.close()


@pytest.fixture
def client(shared):
    shared.poll()
    yield shared
    assert not shared._jobs
