// Talks to our agents as a web page does: a chat of the AI SDK for each scene, over its own
// transport. Tells on standard output, a line of JSON for each, what the page would show.
//
//     node ui_client.mjs http://127.0.0.1:PORT text tools … read
import {
  AbstractChat,
  DefaultChatTransport,
  isToolUIPart,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  readUIMessageStream,
  safeValidateUIMessages,
} from "ai";

const SECONDS = 30;
const [address, ...scenes] = process.argv.slice(2);
const transport = (scene) => new DefaultChatTransport({ api: `${address}/${scene}` });

class Chat extends AbstractChat {
  constructor(scene, told) {
    const state = {
      status: "ready",
      error: undefined,
      messages: [],
      pushMessage: (message) => state.messages.push(message),
      popMessage: () => state.messages.pop(),
      replaceMessage: (index, message) => {
        state.messages[index] = structuredClone(message);
        told.looks.push(look(message));
      },
      snapshot: (thing) => structuredClone(thing),
    };
    super({
      state,
      transport: transport(scene),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      onData: (part) => told.data.push(part),
      onFinish: ({ finishReason, isAbort, isError }) =>
        told.ends.push({ finishReason, isAbort, isError }),
    });
  }
}

// What somebody who looks at the page sees of the last call.
function look(message) {
  const call = message.parts.filter(isToolUIPart).at(-1);
  return call && [call.state, call.input, call.output];
}

async function until(holds) {
  const end = Date.now() + SECONDS * 1000;
  while (!holds()) {
    if (Date.now() > end) throw new Error("it took too long");
    await new Promise((go) => setTimeout(go, 5));
  }
}

const questions = { tools: "How will the weather be in Oslo for 3 days?" };
const parts = (chat) => chat.messages.at(-1).parts;

async function talk(scene) {
  const told = { scene, looks: [], data: [], ends: [] };
  const chat = new Chat(scene, told);
  const sending = chat.sendMessage({ text: questions[scene] ?? "Hello!" });
  if (scene === "left") {
    await until(() => chat.messages.length > 1 && parts(chat).at(-1).text);
    await chat.stop();
  }
  await sending;
  const asked = parts(chat).find((part) => part.state === "approval-requested");
  if (asked) {
    const approved = scene === "approved";
    await chat.addToolApprovalResponse({ id: asked.approval.id, approved, reason: "I say so" });
    await until(() => told.ends.length > 1);
  }
  const valid = await safeValidateUIMessages({ messages: chat.messages });
  const problem = valid.success ? "" : String(valid.error);
  const { status, messages } = chat;
  return { ...told, problem, status, messages, error: chat.error?.message ?? "" };
}

// A stream without a chat around it, and its chunks one by one.
async function read(scene) {
  const messages = [{ id: "u", role: "user", parts: [{ type: "text", text: "Hello!" }] }];
  const sent = { trigger: "submit-message", chatId: "c", messages };
  const [chunks, copy] = (await transport(scene).sendMessages(sent)).tee();
  const kinds = [];
  let last;
  for await (const message of readUIMessageStream({ stream: copy })) last = message;
  for await (const chunk of chunks) kinds.push(chunk.type);
  return { scene, kinds, message: last };
}

for (const scene of scenes) {
  console.log(JSON.stringify(await (scene === "read" ? read(scene) : talk(scene))));
}
