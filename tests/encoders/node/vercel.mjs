// The message that the AI SDK's own reader makes of a UI message stream; chunks it does not know are errors.
import { parseJsonEventStream, readUIMessageStream, uiMessageChunkSchema } from "ai";
import { readAll } from "./streams.mjs";

await readAll(async (text) => {
  const errors = [];
  const chunks = parseJsonEventStream({
    stream: new Blob([text]).stream(),
    schema: uiMessageChunkSchema,
  }).pipeThrough(
    new TransformStream({
      transform(chunk, controller) {
        if (!chunk.success) throw chunk.error;
        if (chunk.value.type === "error") errors.push(chunk.value.errorText);
        else controller.enqueue(chunk.value);
      },
    }),
  );
  let message = null;
  for await (message of readUIMessageStream({ stream: chunks, terminateOnError: true }));
  return { message, errors };
});
