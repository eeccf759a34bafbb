import pytest

from measure.counting import count
from measure.domain.models import OWN, Model
from measure.models import own_models


@pytest.fixture
def counted(monkeypatch):
    """Counts the network and inputs that a function of the batch size returns; the workload."""

    def counted(function, batch=2, precision="fp32"):
        monkeypatch.setattr(own_models, "_find", lambda _name: function)
        return count.count(Model("mine:network", OWN, OWN, (1,)), batch, precision).workload

    return counted
