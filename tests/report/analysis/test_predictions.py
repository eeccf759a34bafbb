from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty
from helpers.predicted_papers import BEAD, NEXT, OLD_BEAD, OWN, POOL, predicted

from measure.cache.predictions import BY_DEVICE, BY_MODEL, METHODS, OURS
from measure.domain.words import STEP
from report.analysis import predictions
from report.analysis.available import DataMissingError


def test_of_a_device_its_newest_release_counts():
    settings = [check.setting for check in predictions.of_settings(predicted())]
    assert settings == [BEAD, NEXT, OWN]
    assert OLD_BEAD not in settings


def test_whole_libraries_on_gpus():
    # The processor's 25 models are no library
    assert [check.setting for check in predictions.of_libraries(predicted())] == [BEAD, NEXT]


def test_a_pool_and_its_devices():
    (pool,) = predictions.pooled(predicted(), BY_DEVICE)
    assert (pool.setting, pool.median, pool.covered) == (POOL, 0.25, 0.9)
    devices = predictions.of_devices(predicted(), BY_DEVICE)
    assert [check.setting for check in devices if predictions.in_pool(predicted(), check, pool)] == [BEAD, NEXT]
    training = pool._replace(setting=POOL._replace(phase=STEP))
    assert not any(predictions.in_pool(predicted(), check, training) for check in devices)


def test_every_method_is_held_against_ours():
    check = predictions.of_settings(predicted())[0]
    assert set(predictions.beside(predicted(), check)) == set(METHODS) == set(predictions.CALLED)
    assert [found.covered for found in predictions.checks(predicted(), BY_MODEL) if found.method != OURS] == [None] * 15


def test_how_calls_were_run():
    assert predictions.conditions(BEAD) == "bf16, eager"
    assert predictions.conditions(POOL._replace(phase=STEP)) == "16 bits, training"
    assert predictions.title(predicted(), OWN) == "Example CPU (4 cores)"


def test_a_device_stands_once_with_the_kinds_that_enough_models_have():
    found = predicted().predictions
    rare = found.kinds.models.where(found.kinds.layer_kind != "activation", 4)
    compiled = found.kinds.assign(
        variant="torch.compile", setting=[row._replace(variant="torch.compile") for row in found.kinds.setting]
    )

    rows = pd.concat([compiled, found.kinds.assign(models=rare)])
    kinds = predictions.kinds(replace(predicted(), predictions=replace(found, kinds=rows)))
    assert set(kinds.name) == {"Bead 2, bf16, eager", "NVIDIA B2, bf16, eager", "Example CPU (4 cores), fp32, eager"}
    assert "activation" not in set(kinds.layer_kind)


@pytest.mark.parametrize("ask", [predictions.of_settings, predictions.of_libraries, predictions.kinds])
def test_without_a_fit_it_says_how_to_fit(ask):
    with pytest.raises(DataMissingError, match="`python -m measure fit"):
        ask(empty())
