"""Front ends in miniature: each reads the events of one format, and fails on any that is out of order."""

import json


class Told:
    """What a front end understands: reads events of one format, and fails on any that is out of order."""

    def __init__(self):
        self.text = self.thoughts = ""
        self.open = set()
        self.ended = set()
        self.arguments = {}
        self.ready = {}
        self.broken = set()
        self.results = {}
        self.extras = []
        self.end = None

    def starts(self, key):
        assert key not in self.open | self.ended
        self.open.add(key)

    def grows(self, key, text):
        assert key in self.open
        assert text

    def ends(self, key):
        self.open.remove(key)
        self.ended.add(key)


def read_vercel(events):
    told = Told()
    assert events[0]["type"] == "start"
    assert events[-1] == "[DONE]"
    assert [event["type"] for event in events[:-1] if event["type"] in ("start", "finish")] == ["start", "finish"]
    step = False
    for event in events[1:-2]:
        kind = event["type"]
        if kind in ("start-step", "finish-step"):
            assert step == (kind == "finish-step")
            assert not told.open
            step = not step
            continue
        match kind.split("-"):
            case [("text" | "reasoning") as name, "start"]:
                told.starts((name, event["id"]))
            case [("text" | "reasoning") as name, "delta"]:
                told.grows((name, event["id"]), event["delta"])
                if name == "text":
                    told.text += event["delta"]
                else:
                    told.thoughts += event["delta"]
            case [("text" | "reasoning") as name, "end"]:
                told.ends((name, event["id"]))
            case ["tool", "input", "start"]:
                told.starts(event["toolCallId"])
                told.arguments[event["toolCallId"]] = ""
            case ["tool", "input", "delta"]:
                told.grows(event["toolCallId"], event["inputTextDelta"])
                told.arguments[event["toolCallId"]] += event["inputTextDelta"]
            case ["tool", "input", "available"]:
                told.ends(event["toolCallId"])
                told.ready[event["toolCallId"]] = event["input"]
            case ["tool", "input", "error"]:
                told.ends(event["toolCallId"])
                told.broken.add(event["toolCallId"])
            case ["tool", "output", "available"]:
                assert event["toolCallId"] in told.ready
                assert event["toolCallId"] not in told.results
                told.results[event["toolCallId"]] = event["output"]
                continue  # stands between the steps
            case ["source", "url"] | ["file"] | ["data", *_]:
                told.extras.append(event)
            case _:
                assert kind in ("error", "abort")
                continue
        assert step
    assert not told.open
    assert not step
    told.end = events[-2]["finishReason"]
    return told


def read_ag_ui(events):
    told = Told()
    events = [event.model_dump(by_alias=True) for event in events]
    assert events[0]["type"] == "RUN_STARTED"
    for event in events[1:-1]:
        kind = event["type"].value if hasattr(event["type"], "value") else event["type"]
        name = event.get("messageId")
        match kind:
            case "TEXT_MESSAGE_START" | "REASONING_START":
                told.starts(name)
            case "TEXT_MESSAGE_CONTENT":
                told.grows(name, event["delta"])
                told.text += event["delta"]
            case "REASONING_MESSAGE_CONTENT":
                told.grows(name, event["delta"])
                told.thoughts += event["delta"]
            case "TEXT_MESSAGE_END" | "REASONING_END":
                told.ends(name)
            case "TOOL_CALL_START":
                told.starts(event["toolCallId"])
                told.arguments[event["toolCallId"]] = ""
            case "TOOL_CALL_ARGS":
                told.grows(event["toolCallId"], event["delta"])
                told.arguments[event["toolCallId"]] += event["delta"]
            case "TOOL_CALL_END":
                told.ends(event["toolCallId"])
            case "TOOL_CALL_RESULT":
                assert event["toolCallId"] not in told.results
                told.results[event["toolCallId"]] = json.loads(event["content"])
            case "CUSTOM":
                told.extras.append(event)
            case _:
                assert kind in ("REASONING_MESSAGE_START", "REASONING_MESSAGE_END", "REASONING_ENCRYPTED_VALUE")
    assert not told.open
    told.end = events[-1]
    return told


def read_chat(events):
    told = Told()
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    ids = []
    for event in events:
        if event == "[DONE]" or "error" in event:
            assert event is events[-1]
            continue
        [choice] = event["choices"]
        delta = choice["delta"]
        assert told.end is None
        told.end = choice["finish_reason"]
        told.text += delta.get("content", "")
        told.thoughts += delta.get("reasoning_content", "")
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["index"] == len(ids)
                ids.append(call["id"])
                told.arguments[call["id"]] = ""
            told.arguments[ids[call["index"]]] += call["function"]["arguments"]
    assert ("error" in events[-1]) == (told.end is None)
    return told
