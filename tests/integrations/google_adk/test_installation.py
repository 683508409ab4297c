"""Our class wherever google-adk has its own, and its own back again."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.models import google_llm
from google.adk.utils import streaming_utils

from adk_stream.integrations.google_adk import (
    StreamingResponseAggregator,
    StrictStreamingResponseAggregator,
    install,
    uninstall,
)

THEIRS = streaming_utils.StreamingResponseAggregator


@pytest.fixture(autouse=True)
def _clean():
    yield
    uninstall()
    assert installed() == {THEIRS}


def installed() -> set[type]:
    return {
        module.__dict__["StreamingResponseAggregator"]
        for name, module in list(sys.modules.items())
        if name.startswith("google.adk") and "StreamingResponseAggregator" in module.__dict__
    }


def test_every_module_that_has_it_gets_ours():
    install()
    assert installed() == {StreamingResponseAggregator}
    assert google_llm.StreamingResponseAggregator is StreamingResponseAggregator
    uninstall()
    assert installed() == {THEIRS}


def test_twice_is_once():
    install()
    install()
    assert installed() == {StreamingResponseAggregator}
    uninstall()
    assert installed() == {THEIRS}
    uninstall()


def test_the_manner_can_be_changed():
    install()
    install(strict_adk=True)
    assert installed() == {StrictStreamingResponseAggregator}


def test_as_a_context_manager_it_restores_what_was_there():
    with install():
        with install(strict_adk=True):
            assert installed() == {StrictStreamingResponseAggregator}
        assert installed() == {StreamingResponseAggregator}
        with pytest.raises(KeyError), install():
            raise KeyError
        assert installed() == {StreamingResponseAggregator}
    assert installed() == {THEIRS}


def test_a_module_that_is_loaded_meanwhile_gets_its_own_back_too(monkeypatch):
    late = ModuleType("google.adk.late")
    monkeypatch.setitem(sys.modules, late.__name__, late)
    with install():
        exec("from google.adk.utils.streaming_utils import StreamingResponseAggregator", late.__dict__)
        assert late.StreamingResponseAggregator is StreamingResponseAggregator
    assert late.StreamingResponseAggregator is THEIRS


def test_what_is_not_google_adks_is_left_alone(monkeypatch):
    other = ModuleType("other")
    other.StreamingResponseAggregator = THEIRS
    monkeypatch.setitem(sys.modules, "other", other)
    with install():
        assert other.StreamingResponseAggregator is THEIRS
