/**
 * One conversation of the chat with one model.
 */

import { ask, askSoon, frames } from "./api.js";
import { fill, h, written } from "./dom.js";
import { answer, isKnown } from "./demo_tools.js";
import { longText } from "./message.js";
import { wait } from "./slices.js";
import { many, seconds } from "./words.js";

/** How many requests are sent for one message: a model may call tools again and again. */
const MAX_ROUNDS = 5;

export class Thread {
  /** `model` is the select element; `note` records a line of the wire, `change` says that it ended. */
  constructor(model, { note, draw, change }, isLogged) {
    Object.assign(this, { model, note, redraw: draw, change, isLogged, messages: [], turns: [] });
    this.log = h("div.talk", { role: "log", "aria-label": "Chat", tabindex: 0 });
  }

  stop() {
    this.running?.abort();
    this.waiting?.(null);
  }

  /** The responses that have ended. */
  get ended() {
    return this.turns.filter((turn) => turn.hasEnded || !this.running);
  }

  /** Send a message, and run the tools that the model calls. */
  async ask(text, given) {
    this.messages.push({ role: "user", content: text });
    this.log.append(bubble("user", "You", longText(text, "Your message")));
    const mine = (this.running = new AbortController());
    this.change();
    try {
      for (let round = 0; round < MAX_ROUNDS && (await this.#round(given, mine.signal)); round += 1);
    } catch (error) {
      const words = mine.signal.aborted ? "Stopped." : error.message;
      this.log.append(h("p.wrong", { role: "alert", text: words }));
    }
    this.running = null;
    this.change();
    this.scrollDown();
  }

  /** Send one request; return whether tools were run, so that another request is needed. */
  async #round({ system, tools }, signal) {
    const began = performance.now();
    const first = system ? [{ role: "system", content: system }] : [];
    const body = { model: this.model.value, stream: true, messages: [...first, ...this.messages] };
    if (tools.length) body.tools = tools;
    this.note(`→ POST /v1/chat/completions ${JSON.stringify(body)}`, "sent");
    const response = await ask("/v1/chat/completions", {
      method: "POST",
      body,
      signal,
      accept: "text/event-stream",
    });
    const turn = new Turn(this.isLogged && response.headers.get("x-request-id"));
    this.turns.push(turn);
    this.log.append(turn.element);
    for await (const { data, raw } of frames(response)) {
      for (const line of raw.split("\n")) this.note(line, "");
      if (data && data !== "[DONE]") turn.take(JSON.parse(data));
      this.redraw();
    }
    turn.end(`${many(turn.chunks, "chunk")} in ${seconds((performance.now() - began) / 1000)}`);
    this.draw();
    this.change();
    this.messages.push(turn.message);
    for (const call of turn.calls) await this.#run(call, signal);
    return turn.calls.length > 0 && !signal.aborted;
  }

  /** Add the result of a call: of the page's own tools, or as the user types it. */
  async #run({ id, function: { name, arguments: given } }, signal) {
    const content = isKnown(name) ? answer(name, given) : await this.#askResult(name);
    if (content === null || signal.aborted) throw new Error("Stopped.");
    this.messages.push({ role: "tool", tool_call_id: id, content });
    this.log.append(bubble("tool", "Tool result", longText(content, "Result")));
  }

  #askResult(name) {
    return new Promise((resolve) => {
      const area = h("textarea", { rows: 3, "aria-label": `Result of ${name}` });
      const form = h("form.stack", area, h("div.actions", h("button.primary", "Send result")));
      const box = bubble("tool", `Result of ${name}`, h("p.quiet", "The page cannot run this tool. Type its result:"), form);
      this.waiting = (content) => {
        box.remove();
        this.waiting = null;
        resolve(content);
      };
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.waiting?.(area.value);
      });
      this.log.append(box);
      this.scrollDown();
      area.focus();
    });
  }

  draw() {
    this.turns.at(-1)?.draw();
    this.scrollDown();
  }

  scrollDown() {
    this.log.scrollTop = this.log.scrollHeight;
  }
}

/** One response in progress, assembled as a client of the chat API does. */
class Turn {
  constructor(id) {
    Object.assign(this, { id, text: "", thinking: "", calls: [], chunks: 0, finish: "" });
    this.thought = h("div.thinking.prose", { hidden: true });
    this.said = h("div.prose");
    this.called = h("div", {});
    this.foot = h(
      "p.quiet",
      id ? h("a", { href: `#/streams/${encodeURIComponent(id)}` }, "Inspect this stream") : null,
      h("span"),
    );
    this.element = bubble("assistant", "Model", this.thought, this.said, this.called, this.foot);
  }

  take(chunk) {
    this.chunks += 1;
    if (chunk.error) throw new Error(chunk.error.message ?? "the stream failed");
    const { delta = {}, finish_reason: finish } = chunk.choices?.[0] ?? {};
    this.text += delta.content ?? "";
    this.thinking += delta.reasoning_content ?? delta.reasoning ?? "";
    this.finish = finish ?? this.finish;
    for (const { index = 0, id, function: part = {} } of delta.tool_calls ?? []) {
      if (index > 100) continue;
      const call = (this.calls[index] ??= { id, type: "function", function: { name: "", arguments: "" } });
      call.function.name += part.name ?? "";
      call.function.arguments += part.arguments ?? "";
    }
  }

  draw() {
    this.thought.hidden = !this.thinking;
    fill(this.thought, written(this.thinking.slice(-20_000)));
    fill(this.said, written(this.text.slice(-20_000)));
    fill(
      this.called,
      this.calls
        .filter(Boolean)
        .map(({ function: { name, arguments: given } }) =>
          h("div.part.call", h("b.k-name", { text: name }), " ", h("code", { text: given.slice(0, 20_000) })),
        ),
    );
  }

  /** What the upstream sent; requested when it is first shown. */
  get upstream() {
    if (!this.sent) {
      this.sent = h("article.part", "Loading …");
      this.#read().catch((error) => fill(this.sent, h("p.wrong", { text: error.message })));
    }
    return this.sent;
  }

  async #read() {
    const path = `/inspector/api/streams/${encodeURIComponent(this.id)}`;
    let found = await askSoon(path);
    for (let tries = 1; tries < MAX_ROUNDS && found.row.state === "started"; tries += 1) {
      await wait(tries * 200);
      found = await askSoon(path);
    }
    const { row, upstream } = found;
    const title = h("h3", { text: `${row.upstream} · ${row.upstream_api}` });
    fill(this.sent, title, longText(upstream.raw || "The bytes were not stored.", "What the upstream sent"));
  }

  end(words) {
    this.hasEnded = true;
    this.calls = this.finish === "tool_calls" ? this.calls.filter(Boolean) : [];
    this.foot.lastChild.append(written(` ${words}${this.finish ? ` · ${this.finish}` : ""}`));
  }

  get message() {
    const message = { role: "assistant", content: this.text || null };
    if (this.calls.length) message.tool_calls = this.calls;
    return message;
  }
}

function bubble(role, name, ...inside) {
  return h("article", { class: `bubble ${role}`, "aria-label": name }, h("h3", { text: name }), inside);
}
