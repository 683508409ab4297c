// The messages that AG-UI's own client makes of a run; it verifies the order of the events.
import { HttpAgent } from "@ag-ui/client";
import { readAll } from "./streams.mjs";

console.error = console.debug = console.log = () => {};
await readAll(async (text) => {
  const warnings = [];
  console.warn = (...words) => warnings.push(words.join(" "));
  const fetch = async () => new Response(text, { headers: { "content-type": "text/event-stream" } });
  const agent = new HttpAgent({ url: "http://127.0.0.1/", threadId: "t", fetch });
  let finished = null;
  let failed = null;
  const { newMessages } = await agent.runAgent(
    { runId: "r" },
    {
      onRunFinishedEvent: ({ event }) => void (finished = event),
      onRunErrorEvent: ({ event }) => void (failed = event),
    },
  );
  return { messages: newMessages, finished, failed, warnings };
});
