"""The service's models and runs as spans, where OpenTelemetry listens."""

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scripted_model import ScriptedModel, calls, says
from served_app import follow, served


def look(city: str) -> str:
    """Look out of the window."""
    return f"rain in {city}"


def spans_of(**config):
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    model = ScriptedModel(calls("look", arguments='{"city": "Oslo"}'), says("rain"))
    with served(model, tools=[look], telemetry=config.get("telemetry", {"tracer_provider": tracers})) as service:
        follow(service, service.run("hi"))
    return [span.attributes.get("gen_ai.operation.name") for span in exporter.get_finished_spans()]


def test_a_run_its_requests_and_its_tools():
    assert sorted(spans_of()) == ["chat", "chat", "execute_tool", "invoke_agent"]


def test_nothing_where_it_is_not_wanted():
    assert spans_of(telemetry=False) == []
