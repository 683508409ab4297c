// Reads a JSON array of event streams (texts) from standard input, gives each to `read`, and writes what came of them:
// {"value": …} or {"error": "…"}.
export async function readAll(read) {
  let input = "";
  for await (const piece of process.stdin.setEncoding("utf8")) input += piece;
  const outcomes = [];
  for (const text of JSON.parse(input)) {
    try {
      outcomes.push({ value: await read(text) });
    } catch (error) {
      outcomes.push({ error: String(error?.message ?? error) });
    }
  }
  await new Promise((done) => process.stdout.write(JSON.stringify(outcomes), done));
  process.exit(0);
}
