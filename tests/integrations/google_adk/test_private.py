"""What google-adk does not call public and is used here all the same: this notices when it moves."""

from __future__ import annotations

import inspect
import re
from importlib import import_module

import pytest

pytest.importorskip("google.adk", reason="google-adk is not installed")

from google.adk.models import google_llm
from google.adk.sessions.base_session_service import BaseSessionService
from releases import INSTALLED

from adk_stream.integrations.google_adk.installation import REPLACEMENTS
from adk_stream.integrations.google_adk.private import PRIVATE_NAMES


@pytest.mark.parametrize("private", PRIVATE_NAMES, ids=lambda each: f"{each.module}.{each.name}")
def test_it_is_where_it_was(private):
    if private.since > INSTALLED:
        pytest.skip("a later release of google-adk has it")
    assert hasattr(import_module(private.module), private.name)


@pytest.mark.parametrize("replacement", REPLACEMENTS, ids=lambda each: each.name)
def test_every_module_that_imports_it_is_known(replacement):
    original = getattr(import_module(replacement.home), replacement.name)
    for user in replacement.users:
        assert getattr(import_module(user), replacement.name) is original


def test_the_model_uses_the_aggregator_as_it_did():
    source = inspect.getsource(google_llm)
    assert re.search(r"aggregator = StreamingResponseAggregator\(\)", source)
    assert "aggregator.process_response(response)" in source
    assert "aggregator.close()" in source


def test_the_session_service_has_no_new_duties():
    assert set(BaseSessionService.__abstractmethods__) == {
        "create_session",
        "get_session",
        "list_sessions",
        "delete_session",
    }
