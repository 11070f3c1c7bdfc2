/**
 * Chat: send messages to a model, and watch both the response and the bytes of its stream.
 *
 * The page offers a few tools and runs them itself, so that calls can be tried. The chat continues
 * while another view is open.
 */

import { about, ask, askSoon, frames } from "./api.js";
import { brief, button, fill, group, h, select, written } from "./dom.js";
import { answer, TOOLS } from "./demo_tools.js";
import { longText } from "./message.js";
import { Rows } from "./rows.js";
import { eachFrame, wait } from "./slices.js";
import { tabs } from "./tabs.js";
import { many, seconds } from "./words.js";

const MAX_ROUNDS = 5;
const MAX_LINES = 50_000;
const STARTS = [
  "What is the weather in Oslo?",
  "Calculate “12 * (7 + 5)” with the calculator.",
  "What time is it, by the clock?",
  "Tell me about yourself.",
];

let place = null;

/** Show the chat in its last state. */
export async function chat(main) {
  place ??= new Chat(await about());
  place.show(main);
  return { "/": () => place.input.focus() };
}

class Chat {
  constructor({ models = [], log }) {
    Object.assign(this, { messages: [], lines: [], turns: [], isLogged: log });
    const names = models.map((one) => (typeof one === "string" ? one : one.id));
    this.model = select(names.length ? names : ["demo"], names[0], null, "Model");
    this.withTools = h("input", { type: "checkbox" });
    this.withTools.checked = true;
    this.log = h("div.talk", { role: "log", "aria-label": "Chat", tabindex: 0 }, this.#starts());
    this.input = h("textarea", {
      rows: 2,
      "aria-label": "Message",
      placeholder: "Type a message … (Enter sends it)",
      on: { keydown: (event) => this.#typed(event) },
    });
    this.send = h("button.primary", "Send");
    this.stop = button("Stop", () => this.running?.abort(), { hidden: true });
    this.wire = new Rows({
      label: "Lines of the stream",
      height: 22,
      draw: (at) => this.#line(at),
      move: (at) => this.#show(at),
    });
    this.detail = h("div.detail", { hidden: true });
    this.told = h("p.quiet", { role: "status" }, "Lines appear as they arrive. Select one to see all of it.");
    this.draw = eachFrame(() => this.#draw());
    this.upstream = group("What the upstream sent", "talk");
    this.sides = tabs("Sides of the stream", [
      ["To the client", () => [this.wire.element, this.detail]],
      ["From the upstream", () => this.upstream],
    ]);
    this.sides.change = () => this.#other();
    this.form = h(
      "form.say",
      { on: { submit: (event) => (event.preventDefault(), this.#ask()) } },
      this.input,
      this.stop,
      this.send,
    );
  }

  /** Put the chat into the page. */
  show(main) {
    const side = (look, label, ...inside) =>
      h(`section.${look}`, { "aria-label": label }, h("h2", label), inside);
    fill(
      main,
      h("h1.hidden", "Chat"),
      h(
        "div.bar",
        this.model,
        h("label.check", this.withTools, `tools: ${TOOLS.map((one) => one.function.name).join(", ")}`),
        button("New chat", () => this.#anew()),
      ),
      h(
        "div.both",
        side("client", "Conversation", this.log, this.form),
        side("wire", "Bytes on the wire", this.sides.element, this.told),
      ),
    );
    this.wire.element.scrollTop = this.wire.element.scrollHeight;
    this.#down();
  }

  #starts() {
    const start = (words) =>
      button(words, () => {
        this.input.value = words;
        this.#ask();
      });
    return h("div.starts", h("p.quiet", "Try one of these:"), STARTS.map(start));
  }

  #anew() {
    this.#runs(null);
    Object.assign(this, { messages: [], lines: [], turns: [] });
    this.wire.resize(0);
    this.detail.hidden = true;
    fill(this.log, this.#starts());
    fill(this.upstream);
  }

  /** Set the running request; the one before it is aborted. */
  #runs(running) {
    this.running?.abort();
    this.running = running;
    [this.send.disabled, this.stop.hidden] = [Boolean(running), !running];
  }

  #typed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#ask();
  }

  async #ask() {
    const text = this.input.value.trim();
    if (!text || this.running) return;
    this.log.querySelector(".starts")?.remove();
    this.input.value = "";
    this.messages.push({ role: "user", content: text });
    this.log.append(bubble("user", "You", longText(text, "Your message")));
    const mine = new AbortController();
    this.#runs(mine);
    try {
      for (let round = 0; round < MAX_ROUNDS && (await this.#round(mine.signal)); round += 1);
    } catch (error) {
      if (this.running !== mine) return; // it is a new chat
      const words = mine.signal.aborted ? "Stopped." : error.message;
      this.log.append(h("p.wrong", { role: "alert", text: words }));
    }
    this.#runs(null);
    this.#other();
    this.#down();
  }

  /** Send one request; return whether tools were run, so that another request is needed. */
  async #round(signal) {
    const began = performance.now();
    const body = { model: this.model.value, stream: true, messages: this.messages };
    if (this.withTools.checked) body.tools = TOOLS;
    this.#note(`→ POST /v1/chat/completions ${JSON.stringify(body)}`, "sent");
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
      for (const line of raw.split("\n")) this.#note(line, "");
      if (data && data !== "[DONE]") turn.take(JSON.parse(data));
      this.draw();
    }
    turn.end(`${many(turn.chunks, "chunk")} in ${seconds((performance.now() - began) / 1000)}`);
    this.#draw();
    this.#other();
    this.messages.push(turn.message);
    for (const call of turn.calls) this.#answer(call);
    return turn.calls.length > 0;
  }

  #answer({ id, function: { name, arguments: given } }) {
    const content = answer(name, given);
    this.messages.push({ role: "tool", tool_call_id: id, content });
    this.log.append(bubble("tool", "Tool result", longText(content, "Result")));
  }

  // --- the wire ---

  #note(text, kind) {
    if (this.lines.length < MAX_LINES) this.lines.push({ text, kind });
  }

  /** Draw a line from its first interesting part: all chunks of a response begin alike. */
  #line(at) {
    const { text, kind } = this.lines[at];
    const from = kind ? -1 : text.indexOf('"choices"');
    const shown = from > 0 ? `data: {⋯ ${text.slice(from, from + 400)}` : text;
    return h("div", { class: `line ${kind}` }, written(brief(shown, 400)));
  }

  #show(at) {
    this.detail.hidden = false;
    fill(this.detail, longText(this.lines[at].text, "Line"));
  }

  /** Show what the upstream sent for the responses that have ended. */
  #other() {
    if (this.sides.opened !== "From the upstream") return;
    const ended = this.turns.filter((turn) => turn.hasEnded || !this.running);
    const words = this.isLogged
      ? "The upstream's bytes are shown here when a response has ended."
      : "The upstream's bytes are read from the log, which is disabled.";
    const isThere = this.isLogged && ended.length;
    fill(this.upstream, isThere ? ended.map((turn) => turn.upstream) : h("p.quiet", words));
  }

  #draw() {
    const box = this.wire.element;
    const isLow = box.scrollTop + box.clientHeight > box.scrollHeight - 60;
    this.wire.resize(this.lines.length, false);
    if (isLow) box.scrollTop = box.scrollHeight;
    this.told.textContent = `${many(this.lines.length, "line")}; select one to see all of it`;
    this.turns.at(-1)?.draw();
    this.#down();
  }

  #down() {
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
  return h("article", { class: `bubble ${role}`, "aria-label": name }, h("h3", name), inside);
}
