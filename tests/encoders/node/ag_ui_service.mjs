// AG-UI's own client talks with a running service: `node ag_ui_service.mjs URL`; a question, then, if the model calls
// a tool of the front end, its result.
import { HttpAgent } from "@ag-ui/client";

console.error = console.debug = console.log = () => {};
const warnings = [];
console.warn = (...words) => warnings.push(words.join(" "));

const agent = new HttpAgent({ url: process.argv[2], threadId: "thread", headers: { authorization: "Bearer k" } });
const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools = [{ name: "weather", description: "The weather", parameters }];
const outcomes = [];
const watch = {
  onRunFinishedEvent: ({ event }) => void outcomes.push(event),
  onRunErrorEvent: ({ event }) => void outcomes.push(event),
};

agent.addMessage({ id: "u1", role: "user", content: "hi" });
await agent.runAgent({ runId: "r1", tools }, watch);
const calls = agent.messages.flatMap((message) => message.toolCalls ?? []);
if (calls.length) {
  for (const { id } of calls) {
    agent.addMessage({ id: `t-${id}`, role: "tool", toolCallId: id, content: '{"sky":"grey"}' });
  }
  await agent.runAgent({ runId: "r2", tools }, watch);
}
process.stdout.write(JSON.stringify({ messages: agent.messages, outcomes, warnings }));
