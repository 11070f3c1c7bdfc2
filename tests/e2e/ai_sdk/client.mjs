// Asks our server for each answer, once as a stream and once whole, through the AI SDK, and tells
// on standard output, a line of JSON for each answer, what an application would have seen. The model
// that it asks for says which answer it wants.
//
//     node client.mjs http://127.0.0.1:PORT text thinking …
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, jsonSchema, streamText, tool } from "ai";

const SECONDS = 60;
const [address, ...answers] = process.argv.slice(2);

const object = (properties) => jsonSchema({ type: "object", properties });
const text = { type: "string" };
const tools = {
  get_weather: tool({
    description: "Tell the weather.",
    inputSchema: object({ city: text, days: { type: "integer" } }),
  }),
  write_file: tool({
    description: "Write a file.",
    inputSchema: object({ path: text, content: text }),
  }),
};

function question(answer) {
  const provider = createOpenAICompatible({
    name: "penstock",
    baseURL: `${address}/v1`,
    apiKey: "none",
    includeUsage: true,
  });
  return {
    model: provider(`model-of-${answer}`),
    prompt: `Say ${answer}.`,
    tools,
    maxRetries: 0,
    abortSignal: AbortSignal.timeout(SECONDS * 1000),
  };
}

const tokens = (usage) => [usage.inputTokens ?? 0, usage.outputTokens ?? 0, usage.totalTokens ?? 0];
const words = (error) => String(error?.message ?? error);

async function streamed(answer) {
  const seen = { text: "", thinking: "", calls: [], ends: [], errors: [], parts: 0 };
  const inputs = new Map();
  const { fullStream } = streamText({ ...question(answer), onError: () => {} });
  for await (const part of fullStream) {
    seen.parts += 1;
    switch (part.type) {
      case "text-delta":
        seen.text += part.text;
        break;
      case "reasoning-delta":
        seen.thinking += part.text;
        break;
      case "tool-input-start":
        inputs.set(part.id, { name: part.toolName, text: "", deltas: 0, ended: false });
        break;
      case "tool-input-delta":
        inputs.get(part.id).text += part.delta;
        inputs.get(part.id).deltas += 1;
        break;
      case "tool-input-end":
        inputs.get(part.id).ended = true;
        break;
      case "tool-call":
        if (!part.invalid) seen.calls.push([part.toolCallId, part.toolName, part.input]);
        break;
      case "error":
        seen.errors.push(words(part.error));
        break;
      case "finish":
        seen.ends.push(part.finishReason);
        seen.usage = tokens(part.totalUsage);
        break;
    }
  }
  return { ...seen, inputs: [...inputs].map(([id, input]) => ({ id, ...input })) };
}

async function whole(answer) {
  try {
    const found = await generateText(question(answer));
    const calls = found.toolCalls.filter((call) => !call.invalid);
    return {
      text: found.text,
      thinking: found.reasoningText ?? "",
      calls: calls.map((call) => [call.toolCallId, call.toolName, call.input]),
      ends: [found.finishReason],
      errors: [],
      usage: tokens(found.totalUsage),
    };
  } catch (error) {
    return { errors: [words(error)], status: error.statusCode };
  }
}

for (const answer of answers) {
  const seen = { answer, streamed: await streamed(answer), whole: await whole(answer) };
  console.log(JSON.stringify(seen));
}
