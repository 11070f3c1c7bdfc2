// Talks to the documented FastAPI application as a web page does: asks, is loaded again while a call
// waits for approval, approves, is loaded again. Prints what it saw as one line of JSON.
//
//     node app_client.mjs http://127.0.0.1:PORT
import {
  AbstractChat,
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  safeValidateUIMessages,
} from "ai";

const SECONDS = 30;
const [address] = process.argv.slice(2);
const api = `${address}/api/chat`;
const id = "chat-1";

class Chat extends AbstractChat {
  constructor(messages, ends) {
    const state = {
      status: "ready",
      error: undefined,
      messages,
      pushMessage: (message) => state.messages.push(message),
      popMessage: () => state.messages.pop(),
      replaceMessage: (index, message) => {
        state.messages[index] = structuredClone(message);
      },
      snapshot: (thing) => structuredClone(thing),
    };
    super({
      id,
      state,
      transport: new DefaultChatTransport({ api }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
      onFinish: ({ finishReason }) => ends.push(finishReason),
    });
  }
}

async function load() {
  const messages = await (await fetch(`${api}/${id}`)).json();
  if (messages.length === 0) return messages;
  const valid = await safeValidateUIMessages({ messages });
  if (!valid.success) throw valid.error;
  return messages;
}

async function until(holds) {
  const end = Date.now() + SECONDS * 1000;
  while (!holds()) {
    if (Date.now() > end) throw new Error("it took too long");
    await new Promise((go) => setTimeout(go, 5));
  }
}

async function post(body) {
  const response = await fetch(api, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  await response.text();
  return response.status;
}

const ends = [];
const seen = { first: await load() };
const page = new Chat([], ends);
await page.sendMessage({ text: "How is the weather in Oslo?" });
const [question] = page.messages;
seen.asked = structuredClone(page.messages);

// The page is closed and opened again: the buttons are there.
const again = new Chat(await load(), ends);
seen.reloaded = structuredClone(again.messages);
const waiting = again.messages.at(-1).parts.find((part) => part.state === "approval-requested");
await again.addToolApprovalResponse({ id: waiting.approval.id, approved: true });
await until(() => ends.length > 1);
seen.finished = structuredClone(again.messages);
seen.last = await load();
seen.ends = ends;

// What a page must not do.
seen.repeated = await post({ id, messages: [question], trigger: "submit-message" });
seen.empty = await post({ id, messages: [] });
seen.blank = await post({ id, messages: [{ ...question, id: "m9", parts: [{ type: "text", text: " " }] }] });
seen.decided = await post({
  id,
  messages: [...again.messages.slice(0, -1), {
    ...again.messages.at(-1),
    parts: [{ ...waiting, state: "approval-responded", approval: { id: "x", approved: true } }],
  }],
});
const parts = [{ type: "text", text: "Hello!" }];
const both = ["a", "b"].map((name) => post({ id, messages: [{ id: name, role: "user", parts }] }));
seen.both = (await Promise.all(both)).sort();
console.log(JSON.stringify(seen));
