/* The middleware @ai-sdk-tool/parser: what it costs for each piece of a call, as a table.

   npm install --no-save @ai-sdk-tool/parser@4.1.26 ai@6.0.326 && node bench/peers/ai_sdk.mjs

   The calls are those of `parsers.py`: an argument of 1, 10 and 30 KB of code, in pieces of four
   characters. A model that streams them is wrapped as in a program, and its stream is read to the
   end. CPU time, the best of three rounds; "without" is the same stream without the middleware. */

import { hermesToolMiddleware, qwen3CoderToolMiddleware } from "@ai-sdk-tool/parser";
import { wrapLanguageModel } from "ai";

const SIZES = [1_000, 10_000, 30_000];
const ROUNDS = 3;
const PIECE = 4;
const PROMPT = [{ role: "user", content: [{ type: "text", text: "?" }] }];
const TEXT = { type: "string" };
const TOOL = {
  type: "function",
  name: "write_file",
  inputSchema: { type: "object", properties: { path: TEXT, text: TEXT } },
};

const line = "    total = total + value_of(item)\n";
const makeCode = (size) => line.repeat(size / line.length + 1).slice(0, size);

const FORMATS = {
  hermes: [
    hermesToolMiddleware,
    (input) =>
      `<tool_call>\n${JSON.stringify({ name: "write_file", arguments: input })}\n</tool_call>`,
  ],
  qwen3_coder: [
    qwen3CoderToolMiddleware,
    (input) =>
      "<tool_call>\n<function=write_file>\n" +
      Object.entries(input)
        .map(([key, value]) => `<parameter=${key}>\n${value}\n</parameter>\n`)
        .join("") +
      "</function>\n</tool_call>",
  ],
};

function makeModel(pieces) {
  return {
    specificationVersion: "v3",
    provider: "bench",
    modelId: "m",
    supportedUrls: {},
    doStream: async () => ({
      stream: new ReadableStream({
        start(controller) {
          controller.enqueue({ type: "stream-start", warnings: [] });
          controller.enqueue({ type: "text-start", id: "1" });
          for (const delta of pieces) controller.enqueue({ type: "text-delta", id: "1", delta });
          controller.enqueue({ type: "text-end", id: "1" });
          const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
          controller.enqueue({ type: "finish", finishReason: { unified: "stop" }, usage });
          controller.close();
        },
      }),
    }),
  };
}

async function measure(model, pieces) {
  const before = process.cpuUsage();
  const { stream } = await model.doStream({ prompt: PROMPT, tools: [TOOL] });
  let call, deltas = 0;
  for await (const part of stream) {
    if (part.type === "tool-call") call = part;
    if (part.type === "tool-input-delta") deltas += 1;
  }
  const used = process.cpuUsage(before);
  return { cost: (used.user + used.system) / pieces.length, deltas, call };
}

console.log("| format, size | µs CPU a piece | without | deltas | argument |\n|---|---|---|---|---|");
for (const [name, [middleware, write]] of Object.entries(FORMATS)) {
  for (const size of SIZES) {
    const input = { path: "/srv/a.py", text: makeCode(size) };
    const pieces = write(input).match(new RegExp(`[^]{1,${PIECE}}`, "g"));
    const model = makeModel(pieces);
    const wrapped = wrapLanguageModel({ model, middleware });
    let best = Infinity, plain = Infinity, deltas, argument;
    for (let round = 0; round < ROUNDS; round += 1) {
      const read = await measure(wrapped, pieces);
      const text = JSON.parse(read.call?.input ?? "{}").text;
      if (text?.trim() !== input.text.trim()) throw new Error("a wrong call");
      argument = text === input.text ? "exact" : "trimmed";
      ({ deltas } = read);
      best = Math.min(best, read.cost);
      plain = Math.min(plain, (await measure(model, pieces)).cost);
    }
    console.log(`| ${name}, ${size} | ${best.toFixed(1)} | ${plain.toFixed(1)} | ${deltas} | ${argument} |`);
  }
}
