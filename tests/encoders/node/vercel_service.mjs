// The AI SDK's own transport talks with a running service: `node vercel_service.mjs URL GATE`. In the middle of the
// answer a second client takes up the stream; then the first one asks for the gate to be opened.
import { DefaultChatTransport, readUIMessageStream } from "ai";

const [url, gate] = process.argv.slice(2);
const headers = { authorization: "Bearer k" };
const transport = () => new DefaultChatTransport({ api: url, headers });

async function read(stream) {
  let message = null;
  for await (message of readUIMessageStream({ stream, terminateOnError: true }));
  return message;
}

const asked = [{ id: "u1", role: "user", parts: [{ type: "text", text: "hi" }] }];
const none = await transport().reconnectToStream({ chatId: "chat" });
const stream = await transport().sendMessages({ chatId: "chat", messages: asked, trigger: "submit-message" });
const resumed = await transport().reconnectToStream({ chatId: "chat" });
await fetch(gate);
const [first, second] = await Promise.all([read(stream), read(resumed)]);
const over = await transport().reconnectToStream({ chatId: "chat" });
process.stdout.write(JSON.stringify({ none, first, second, over }), () => process.exit(0));
