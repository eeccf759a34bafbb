import socket
import sys
from types import SimpleNamespace

import pytest

from measure.cluster.crew import connected
from measure.errors import UserError


@pytest.fixture
def asked(monkeypatch):
    """The addresses that Ray was asked to connect to, where there need not be a Ray."""
    addresses = []
    ray = SimpleNamespace(init=lambda address, **_: addresses.append(address), shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    return addresses


@pytest.fixture
def listening():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("prefix", ["", "ray://"])
def test_an_address_that_nobody_answers_at_is_one_sentence_before_ray_is_asked(asked, prefix):
    with socket.create_server(("127.0.0.1", 0)) as server:
        deserted = server.getsockname()[1]
    address = f"{prefix}127.0.0.1:{deserted}"
    with pytest.raises(UserError) as caught, connected(address):
        pass
    assert str(caught.value).startswith(f"--cluster: no Ray cluster answers at '{address}' (ConnectionRefusedError: ")
    assert str(caught.value).endswith("; start one with ray start --head, or give the address of one")
    assert asked == []


@pytest.mark.parametrize("address", ["127.0.0.1:port", "127.0.0.1:70000"])
def test_a_port_is_a_number(asked, address):
    with pytest.raises(UserError, match=f"--cluster: no Ray cluster answers at '{address}' "), connected(address):
        pass
    assert asked == []


def test_ray_is_asked_where_somebody_answers_and_where_it_knows_itself(asked, listening):
    for address in (f"127.0.0.1:{listening}", f"ray://localhost:{listening}", "auto"):
        with connected(address):
            assert asked.pop() == address
