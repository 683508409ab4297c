"""A recorded stream through `aggregate`: partial responses to show, a final one to keep."""

from pathlib import Path

from adk_stream import aggregate

RECORDING = Path(__file__).parent / "recordings" / "tool-call-with-signature.sse"

with RECORDING.open("rb") as stream:  # any iterable of bytes will do: an open HTTP response, a socket, a file
    for response in aggregate(iter(lambda: stream.read(100), b""), provider="gemini"):
        if response.partial:
            print("shows", repr(response.text or response.thought_text or "a call"))
        else:
            print("keeps", response.status)
            for call in response.executable_function_calls():  # complete calls of this stream, nothing else
                print("runs ", call.name, call.args)
