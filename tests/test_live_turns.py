"""Live sessions: turns, transcripts, interruptions, and what each message says beside its content."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from google.genai import types

from adk_stream import LlmResponse, StreamingResponseAggregator, aggregate
from adk_stream.aggregator.heard import duration_ms, heard

PCM = "audio/pcm;rate=24000"


def turn(*parts: Any, **content: Any) -> dict[str, Any]:
    return {"serverContent": {"modelTurn": {"role": "model", "parts": list(parts)}, **content}}


def audio(ms: int = 20) -> dict[str, Any]:
    data = base64.b64encode(bytes(ms * 48)).decode()
    return {"inlineData": {"mimeType": PCM, "data": data}}


def said(who: str, text: str, **more: Any) -> dict[str, Any]:
    return {"serverContent": {f"{who}Transcription": {"text": text, **more}}}


def content(**fields: Any) -> dict[str, Any]:
    return {"serverContent": fields}


def call(call_id: str, name: str = "f", **args: Any) -> dict[str, Any]:
    return {"toolCall": {"functionCalls": [{"id": call_id, "name": name, "args": args}]}}


COMPLETE = content(turnComplete=True)
INTERRUPTED = content(interrupted=True)


def run(*messages: dict[str, Any], flush: Any = "close", audio: Any = None, close: bool = True) -> list[LlmResponse]:
    """The responses of messages as google-genai's objects, the aggregator's way of a live session."""
    aggregator = StreamingResponseAggregator(flush=flush, audio=audio)
    responses = [
        response
        for message in messages
        for response in aggregator.process_response(types.LiveServerMessage.model_validate(message))
    ]
    final = aggregator.close() if close else None
    return responses + ([final] if final is not None else [])


def brief(response: LlmResponse) -> Any:
    """What a response is about, in one word or pair."""
    if response.turn_complete:
        return ("complete", response.status)
    for who in ("input", "output"):
        transcription = getattr(response, f"{who}_transcription")
        if transcription is not None:
            return (who, transcription.text)
    for part in response.parts:
        if part.function_call:
            return ("call", part.function_call.id)
        if part.inline_data:
            return "audio"
        if part.text is not None:
            return ("thought" if part.thought else "text", part.text)
    return "interrupted" if response.interrupted else "signal"


def finals(responses: list[LlmResponse]) -> list[Any]:
    return [brief(response) for response in responses if not response.partial]


class TestTurns:
    @pytest.mark.parametrize("flush", ["close", "boundary"])
    def test_each_turn_is_complete_at_its_end_and_leaves_nothing(self, flush: str) -> None:
        responses = run(
            turn({"text": "On"}),
            turn({"text": "e"}),
            {**COMPLETE, "usageMetadata": {"promptTokenCount": 3, "responseTokenCount": 2, "totalTokenCount": 5}},
            turn({"text": "Two"}),
            {**COMPLETE, "usageMetadata": {"totalTokenCount": 9}},
            flush=flush,
        )
        assert finals(responses) == [
            ("text", "One"),
            ("complete", "completed"),
            ("text", "Two"),
            ("complete", "completed"),
        ]
        usages = [response.usage_metadata for response in responses if response.usage_metadata]
        assert [(usage.total_token_count, usage.candidates_token_count) for usage in usages] == [(5, 2), (9, None)]
        assert all(response.turn_complete for response in responses if response.usage_metadata)

    def test_the_end_of_the_session_completes_the_open_turn_as_cut(self) -> None:
        *_, final = run(said("input", "hi"), said("output", "Hel"), turn({"text": "He"}))
        assert (final.status, final.error_code) == ("incomplete", "STREAM_CUT")
        assert final.input_transcription.text == "hi"
        assert final.output_transcription.text == "Hel"
        assert final.text == "He"

    def test_the_end_of_the_session_after_a_turn_adds_nothing(self) -> None:
        update = {"sessionResumptionUpdate": {"newHandle": "h", "resumable": True}}
        assert finals(run(turn({"text": "a"}), COMPLETE, update)) == [("text", "a"), ("complete", "completed")]

    def test_an_error_keeps_what_had_come(self) -> None:
        aggregator = StreamingResponseAggregator()
        list(aggregator.process_response(types.LiveServerMessage.model_validate(said("output", "Hel"))))
        final = aggregator.close(ConnectionError("gone"))
        assert (final.status, final.error_code) == ("failed", "ConnectionError")
        assert final.output_transcription.text == "Hel"

    def test_the_reason_of_an_end_that_is_not_natural(self) -> None:
        *_, end = run(turn({"text": "a"}), content(turnComplete=True, turnCompleteReason="GENERATED_AUDIO_SAFETY"))
        assert (end.status, end.finish_reason, end.error_code) == ("incomplete", "SAFETY", "GENERATED_AUDIO_SAFETY")
        assert end.turn_complete_reason == "GENERATED_AUDIO_SAFETY"
        *_, end = run(content(turnComplete=True, turnCompleteReason="NEED_MORE_INPUT"))
        assert (end.status, end.error_code) == ("completed", None)

    def test_a_snapshot_goes_on_in_the_middle_of_a_turn(self) -> None:
        messages = [said("input", "hi"), turn({"text": "He"}), said("output", "He"), turn({"text": "llo"}), COMPLETE]
        for at in range(len(messages)):
            aggregator = StreamingResponseAggregator("close")
            responses = []
            for number, message in enumerate(messages):
                if number == at:
                    aggregator = StreamingResponseAggregator.restore(aggregator.snapshot())
                responses += aggregator.process_response(types.LiveServerMessage.model_validate(message))
            assert finals(responses) == [
                ("input", "hi"),
                ("text", "Hello"),
                ("output", "He"),
                ("complete", "completed"),
            ]


class TestTranscripts:
    def test_fragments_are_shown_and_then_the_whole_once(self) -> None:
        responses = run(said("output", "Ca"), said("output", "n I"), said("output", " help?"), COMPLETE)
        shown = [response.output_transcription.text for response in responses if response.partial]
        assert shown == ["Ca", "n I", " help?"]
        assert finals(responses) == [("output", "Can I help?"), ("complete", "completed")]

    def test_the_users_words_come_before_what_they_led_to(self) -> None:
        responses = run(
            said("output", "Hi!", finished=True),
            said("input", "Hello "),
            turn({"text": "Hi"}),
            said("input", "there"),
            COMPLETE,
        )
        assert finals(responses) == [
            ("input", "Hello there"),
            ("text", "Hi"),
            ("output", "Hi!"),
            ("complete", "completed"),
        ]

    def test_generation_complete_ends_no_transcript(self) -> None:
        responses = run(said("output", "a"), content(generationComplete=True), said("output", "b"), COMPLETE)
        assert finals(responses) == [("output", "ab"), ("complete", "completed")]
        assert {"generationComplete": True} in [response.provider_metadata for response in responses]

    def test_language_speaker_and_words_are_kept(self) -> None:
        word = {"word": "Hallo", "startOffset": "0.1s"}
        responses = run(
            said("output", "Hallo", languageCode="de", speakerLabel="spk_1", words=[word]),
            said("output", " Welt", words=[{"word": "Welt"}]),
            COMPLETE,
        )
        final = responses[-2].output_transcription
        assert (final.text, final.language_code, final.finished) == ("Hallo Welt", "de", True)
        if "words" in types.Transcription.model_fields:
            assert [each.word for each in final.words] == ["Hallo", "Welt"]

    def test_a_guess_is_shown_and_never_kept(self) -> None:
        if "interim_input_transcription" not in types.LiveServerContent.model_fields:
            pytest.skip("this google-genai has no interim transcriptions")
        responses = run(content(interimInputTranscription={"text": "Hallow"}), said("input", "Hello"), COMPLETE)
        assert brief(responses[0]) == ("input", "Hallow")
        assert finals(responses) == [("input", "Hello"), ("complete", "completed")]

    def test_words_behind_the_end_of_a_stream_read_as_a_whole(self) -> None:
        late = [said("output", "Hel"), COMPLETE, said("output", "l"), said("output", "o", finished=True)]
        assert finals(list(aggregate(late))) == [("output", "Hello"), ("complete", "completed")]
        assert finals(list(aggregate(late[:3]))) == [("output", "Hell"), ("complete", "completed")]
        next_turn = [
            said("output", "One"),
            COMPLETE,
            said("output", "Tw"),
            turn(audio()),
            said("output", "o"),
            COMPLETE,
        ]
        assert finals(list(aggregate(next_turn))) == [
            ("output", "One"),
            ("complete", "completed"),
            ("output", "Two"),
            ("complete", "completed"),
        ]


class TestCalls:
    @pytest.mark.parametrize("flush", ["close", "boundary"])
    def test_a_call_comes_out_when_it_arrives_behind_what_was_said(self, flush: str) -> None:
        responses = run(
            said("input", "weather?"),
            said("output", "Let me see."),
            turn({"text": "Hm"}),
            call("1", x=1),
            flush=flush,
            close=False,
        )
        kept = finals(responses)
        assert kept[:2] == [("input", "weather?"), ("output", "Let me see.")]
        assert [part.text for r in responses if not r.partial for part in r.parts if part.text] == ["Hm"]
        assert [c.id for response in responses for c in response.executable_function_calls()] == ["1"]

    def test_a_call_beside_the_end_of_the_turn(self) -> None:
        responses = run({**COMPLETE, **call("1")})
        assert finals(responses) == [("call", "1"), ("complete", "completed")]

    def test_a_cancelled_call_is_announced_and_cannot_run_afterwards(self) -> None:
        cancel = {"toolCallCancellation": {"ids": ["1", "2"]}}
        responses = run(call("1"), cancel, call("2"), COMPLETE)
        announced = [r.provider_metadata for r in responses if "tool_call_cancellation" in (r.provider_metadata or {})]
        assert announced == [{"provider": "gemini-live", "tool_call_cancellation": {"ids": ["1", "2"]}}]
        assert [c.id for response in responses for c in response.executable_function_calls()] == ["1"]

    def test_a_call_without_an_id_gets_one(self) -> None:
        responses = run(
            {"toolCall": {"functionCalls": [{"name": "f", "args": {}}, {"name": "f", "args": {}}]}}, COMPLETE
        )
        ids = [c.id for response in responses for c in response.executable_function_calls()]
        assert len(set(ids)) == 2


class TestInterruption:
    def test_the_signal_comes_first_and_what_was_said_is_kept(self) -> None:
        responses = run(
            said("output", "Let me"),
            turn(audio()),
            {
                "serverContent": {
                    "interrupted": True,
                    "modelTurn": {"parts": [audio()]},
                    "outputTranscription": {"text": " see"},
                }
            },
            turn(audio()),
            COMPLETE,
            turn(audio()),
            COMPLETE,
        )
        assert [brief(response) for response in responses] == [
            ("output", "Let me"),
            "audio",
            "interrupted",
            "audio",
            ("output", " see"),
            ("output", "Let me see"),
            "audio",
            ("complete", "incomplete"),
            "audio",
            ("complete", "completed"),
        ]
        stale = [
            bool(response.parts[0].part_metadata and response.parts[0].part_metadata["stale"])
            for response in responses
            if brief(response) == "audio"
        ]
        assert stale == [False, True, True, False]
        kept = responses[5]
        assert (kept.status, kept.interrupted, kept.error_code) == ("incomplete", True, None)
        assert (responses[7].interrupted, responses[7].error_code) == (True, None)

    def test_an_interruption_without_an_end(self) -> None:
        responses = run(said("output", "Let me"), INTERRUPTED)
        assert finals(responses)[0] == ("output", "Let me")
        assert (responses[-1].error_code, responses[-1].interrupted) == ("STREAM_CUT", True)

    def test_the_transcript_is_cut_to_what_was_played(self) -> None:
        aggregator = StreamingResponseAggregator("close")

        def feed(message: dict[str, Any]) -> list[LlmResponse]:
            return list(aggregator.process_response(types.LiveServerMessage.model_validate(message)))

        feed(said("output", "one two "))
        feed(turn(audio(1000)))
        feed(said("output", "three four"))
        feed(turn(audio(1000)))
        aggregator.playback_position(1500)
        responses = feed(INTERRUPTED)
        assert responses[1].output_transcription.text == "one two three"
        assert responses[1].provider_metadata["whole_output_transcription"] == "one two three four"
        feed(COMPLETE)
        assert brief(feed(said("output", "next"))[0]) == ("output", "next")
        assert finals(feed(COMPLETE)) == [("output", "next"), ("complete", "completed")]


class TestAudio:
    def test_it_is_shown_at_once_and_left_out_of_the_finals(self) -> None:
        responses = run(turn(audio()), turn(audio()), COMPLETE)
        assert [brief(response) for response in responses] == ["audio", "audio", ("complete", "completed")]

    def test_it_is_joined_for_each_turn_when_asked(self) -> None:
        responses = run(turn(audio(1)), turn(audio(2)), COMPLETE, turn(audio(1)), COMPLETE, audio="join")
        sizes = [len(r.parts[0].inline_data.data) for r in responses if not r.partial and r.parts]
        assert sizes == [144, 48]

    def test_an_hour_of_audio_in_one_turn_is_no_response_too_large(self) -> None:
        aggregator = StreamingResponseAggregator()
        message = types.LiveServerMessage.model_validate(turn({"inlineData": {"mimeType": PCM, "data": "AAAA"}}))
        for _ in range(110_000):
            aggregator.process_response(message)
        assert len(aggregator.snapshot()) < 10_000

    def test_the_length_of_audio(self) -> None:
        assert duration_ms("audio/pcm;rate=16000", 32_000) == 1000
        assert duration_ms("audio/pcm", 48_000) == 1000
        assert duration_ms("audio/pcm;rate=nonsense", 48_000) == 1000


class TestSignals:
    def test_each_has_its_field(self) -> None:
        (response,) = run(
            {
                "sessionResumptionUpdate": {"newHandle": "h", "resumable": True},
                "goAway": {"timeLeft": "5s"},
                "serverContent": {"waitingForInput": True},
            },
            close=False,
        )
        assert response.partial
        assert response.live_session_resumption_update.new_handle == "h"
        assert response.go_away.time_left == "5s"
        assert response.provider_metadata == {"waitingForInput": True}

    def test_grounding_is_given_once_with_the_turn(self) -> None:
        grounding = {"webSearchQueries": ["q"]}
        responses = run(
            turn({"text": "a"}, groundingMetadata=grounding), content(turnComplete=True, groundingMetadata={})
        )
        assert [r.grounding_metadata.web_search_queries for r in responses if r.grounding_metadata] == [["q"]]


class TestRecordedSessions:
    def test_frames_of_both_directions(self) -> None:
        frames = [
            {"kind": "message", "direction": "sent", "data": {"setup": {"model": "m"}}},
            {"kind": "message", "direction": "received", "data": {"setupComplete": {}}},
            {"kind": "message", "direction": "received", "data": turn({"text": "Hi"})},
            {"kind": "message", "direction": "sent", "data": turn({"text": "no"})},
            {"kind": "message", "direction": "received", "data": COMPLETE},
        ]
        assert finals(list(aggregate(frames))) == [("text", "Hi"), ("complete", "completed")]

    def test_an_error_frame(self) -> None:
        *_, final = aggregate([turn({"text": "Hi"}), {"error": {"code": 1011, "message": "broken"}}], "gemini-live")
        assert (final.status, final.error_code, final.error_message) == ("failed", "1011", "broken")
        assert final.text == "Hi"


class TestHeard:
    @pytest.mark.parametrize(
        ("played", "words"),
        [
            (0, ""),
            (500, "one"),
            (999, "one two"),
            (1000, "one two"),
            (1999, "one two three"),
            (2000, "one two three four"),
        ],
    )
    def test_whole_words_in_proportion(self, played: float, words: str) -> None:
        assert heard("one two three four", [(0, 0), (1000, 8)], 2000, played) == words

    def test_words_that_lag_behind_their_audio(self) -> None:
        assert heard("one two three four", [(2000, 0)], 2000, 1000) == "one two"

    def test_no_audio_at_all(self) -> None:
        assert heard("one two", [(0, 0)], 0, 0) == "one two"
