/**
 * Chat: ask a model, and watch both sides of the stream: the answer, and the bytes that bring it.
 *
 * A few tools are offered, which this page answers itself, so that calls go round.
 */

import { about, ask, frames } from "./api.js";
import { brief, fill, h, select, written } from "./dom.js";
import { answer, TOOLS } from "./demo_tools.js";
import { longText } from "./message.js";
import { Rows } from "./rows.js";
import { eachFrame } from "./slices.js";
import { many, seconds } from "./words.js";

const MAX_ROUNDS = 5;
const MAX_LINES = 50_000;
const STARTS = [
  "What is the weather in Oslo?",
  "Calculate “12 * (7 + 5)” with the calculator.",
  "What time does the clock tell?",
  "Tell me about yourself.",
];

/** Show the chat. */
export async function chat(main, rest, signal) {
  const place = new Chat(main, signal, await about());
  return { "/": () => place.input.focus() };
}

class Chat {
  constructor(main, signal, { models = [] }) {
    this.signal = signal;
    this.messages = [];
    this.lines = [];
    const names = models.map((one) => (typeof one === "string" ? one : one.id));
    this.model = select(names.length ? names : ["demo"], names[0], null, "Model");
    this.withTools = h("input", { type: "checkbox" });
    this.withTools.checked = true;
    this.log = h("div", { class: "talk", role: "log", "aria-label": "Chat", tabindex: 0 }, this.#starts());
    this.input = h("textarea", {
      rows: 2,
      "aria-label": "Message",
      placeholder: "Ask something … (Enter sends)",
      on: { keydown: (event) => this.#typed(event) },
    });
    this.send = h("button", { class: "primary" }, "Send");
    this.stop = h(
      "button",
      { type: "button", hidden: true, on: { click: () => this.running?.abort() } },
      "Stop",
    );
    this.wire = new Rows({
      label: "Lines of the stream",
      height: 22,
      draw: (at) => this.#line(at),
      move: (at) => this.#show(at),
    });
    this.detail = h("div", { class: "detail", hidden: true });
    this.told = h(
      "p",
      { class: "quiet", role: "status" },
      "Each line is shown as it comes; press one for all of it.",
    );
    this.draw = eachFrame(() => this.#draw());
    const form = h(
      "form",
      { class: "say", on: { submit: (event) => (event.preventDefault(), this.#ask()) } },
      this.input,
      this.stop,
      this.send,
    );
    fill(
      main,
      h("h1", { class: "hidden" }, "Chat"),
      h(
        "div",
        { class: "bar" },
        this.model,
        h(
          "label",
          { class: "check" },
          this.withTools,
          `tools: ${TOOLS.map((one) => one.function.name).join(", ")}`,
        ),
        h("button", { type: "button", on: { click: () => this.#anew() } }, "New chat"),
      ),
      h(
        "div",
        { class: "both" },
        h(
          "section",
          { class: "client", "aria-label": "What the client sees" },
          h("h2", {}, "What the client sees"),
          this.log,
          form,
        ),
        h(
          "section",
          { class: "wire", "aria-label": "What comes over the wire" },
          h("h2", {}, "What comes over the wire"),
          this.wire.element,
          this.detail,
          this.told,
        ),
      ),
    );
    signal.addEventListener("abort", () => this.running?.abort());
  }

  #starts() {
    const button = (words) =>
      h(
        "button",
        {
          type: "button",
          on: {
            click: () => {
              this.input.value = words;
              this.#ask();
            },
          },
        },
        words,
      );
    return h("div", { class: "starts" }, h("p", { class: "quiet" }, "Try one of these:"), STARTS.map(button));
  }

  #anew() {
    this.running?.abort();
    this.messages = [];
    this.lines = [];
    this.wire.resize(0);
    this.detail.hidden = true;
    fill(this.log, this.#starts());
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
    this.running = new AbortController();
    [this.send.disabled, this.stop.hidden] = [true, false];
    try {
      for (let round = 0; round < MAX_ROUNDS && (await this.#round()); round += 1);
    } catch (error) {
      if (!this.signal.aborted)
        this.log.append(
          h("p", {
            class: "wrong",
            role: "alert",
            text: this.running.signal.aborted ? "Stopped." : error.message,
          }),
        );
    }
    this.running = null;
    [this.send.disabled, this.stop.hidden] = [false, true];
    this.#down();
  }

  /** Ask once; tell whether calls were answered, so that it has to be asked again. */
  async #round() {
    const began = performance.now();
    const body = { model: this.model.value, stream: true, messages: this.messages };
    if (this.withTools.checked) body.tools = TOOLS;
    this.#note(`→ POST /v1/chat/completions ${JSON.stringify(body)}`, "sent");
    const response = await ask("/v1/chat/completions", {
      method: "POST",
      body,
      signal: this.running.signal,
      accept: "text/event-stream",
    });
    const turn = new Turn(response.headers.get("x-request-id"));
    this.turn = turn;
    this.log.append(turn.element);
    for await (const { data, raw } of frames(response)) {
      for (const line of raw.split("\n")) this.#note(line, "");
      if (data && data !== "[DONE]") turn.take(JSON.parse(data));
      this.draw();
    }
    turn.end(`${many(turn.chunks, "chunk")} in ${seconds((performance.now() - began) / 1000)}`);
    this.#draw();
    this.messages.push(turn.message);
    for (const call of turn.calls) this.#answer(call);
    return turn.calls.length > 0;
  }

  #answer({ id, function: { name, arguments: given } }) {
    const content = answer(name, given);
    this.messages.push({ role: "tool", tool_call_id: id, content });
    this.log.append(bubble("tool", "This page answers", longText(content, "Result")));
  }

  // --- the wire ---

  #note(text, kind) {
    if (this.lines.length < MAX_LINES) this.lines.push({ text, kind });
  }

  /** Draw a line from where it says something: all chunks of an answer begin alike. */
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

  #draw() {
    const box = this.wire.element;
    const isLow = box.scrollTop + box.clientHeight > box.scrollHeight - 60;
    this.wire.resize(this.lines.length, false);
    if (isLow) box.scrollTop = box.scrollHeight;
    this.told.textContent = `${many(this.lines.length, "line")}; press one for all of it`;
    this.turn?.draw();
    this.#down();
  }

  #down() {
    this.log.scrollTop = this.log.scrollHeight;
  }
}

/** One answer while it comes, as a client of the chat API puts it together. */
class Turn {
  constructor(id) {
    Object.assign(this, { text: "", thinking: "", calls: [], chunks: 0, finish: "" });
    this.thought = h("div", { class: "thinking prose", hidden: true });
    this.said = h("div", { class: "prose" });
    this.called = h("div", {});
    this.foot = h(
      "p",
      { class: "quiet" },
      id ? h("a", { href: `#/streams/${encodeURIComponent(id)}` }, "Look at this stream") : null,
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
          h(
            "div",
            { class: "part call" },
            h("b", { class: "k-name", text: name }),
            " ",
            h("code", { text: given.slice(0, 20_000) }),
          ),
        ),
    );
  }

  end(words) {
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
  return h("article", { class: `bubble ${role}`, "aria-label": name }, h("h3", {}, name), inside);
}
