/**
 * Chat: send messages to one or several models, and watch the responses and the bytes of the streams.
 *
 * Several models are shown side by side and get the same messages, so that models and formats can be
 * compared. The page runs a few tools itself; the result of any other tool is typed by the user. The
 * chat continues while another view is open.
 */

import { about } from "./api.js";
import { brief, button, field, fill, group, h, select, written } from "./dom.js";
import { Thread } from "./chat_thread.js";
import { TOOLS } from "./demo_tools.js";
import { longText } from "./message.js";
import { Rows } from "./rows.js";
import { eachFrame } from "./slices.js";
import { tabs } from "./tabs.js";
import { many } from "./words.js";

const MAX_THREADS = 4;
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
    Object.assign(this, { lines: [], isLogged: log });
    const names = models.map((one) => (typeof one === "string" ? one : one.id));
    this.names = names.length ? names : ["demo"];
    this.withTools = h("input", { type: "checkbox" });
    this.withTools.checked = true;
    this.system = h("textarea", { rows: 3, "aria-label": "System prompt", placeholder: "No system prompt" });
    this.tools = h("textarea.code", {
      rows: 10,
      spellcheck: "false",
      "aria-label": "Tools as JSON",
      "aria-describedby": "chat-wrong",
      value: JSON.stringify(TOOLS, null, 2),
    });
    this.wrong = h("p.wrong", { id: "chat-wrong", role: "status" });
    this.input = h("textarea", {
      rows: 2,
      "aria-label": "Message",
      placeholder: "Type a message … (Enter sends it)",
      on: { keydown: (event) => this.#typed(event) },
    });
    this.send = h("button.primary", "Send");
    this.stop = button("Stop", () => this.threads.forEach((one) => one.stop()), { hidden: true });
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
    this.columns = h("div.columns");
    this.add = button("Compare with another model", () => this.#another());
    this.#anew();
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
        this.add,
        h("label.check", this.withTools, "with tools"),
        button("New chat", () => this.#anew()),
        h(
          "details.settings",
          h("summary", "System prompt and tools"),
          h("div.stack", field("System prompt", this.system), field("Tools", this.tools), this.wrong),
        ),
      ),
      h(
        "div.both",
        side("client", "Conversation", this.columns, this.form),
        side("wire", "Bytes on the wire", this.sides.element, this.told),
      ),
    );
    this.wire.element.scrollTop = this.wire.element.scrollHeight;
    for (const thread of this.threads) thread.scrollDown();
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
    for (const thread of this.threads ?? []) thread.stop();
    const models = this.threads?.map((one) => one.model.value) ?? [this.names[0]];
    this.lines = [];
    this.threads = models.map((name) => this.#makeThread(name));
    this.threads[0].log.append(this.#starts());
    this.wire.resize(0);
    this.detail.hidden = true;
    fill(this.upstream);
    this.#arrange();
  }

  #makeThread(name) {
    return new Thread(
      select(this.names, name, null, "Model"),
      { note: (text, kind) => this.#note(text, kind), draw: this.draw, change: () => this.#changed() },
      this.isLogged,
    );
  }

  /** Add a column for another model, with the messages of the user so far still to be sent. */
  #another() {
    const used = this.threads.map((one) => one.model.value);
    this.threads.push(this.#makeThread(this.names.find((name) => !used.includes(name)) ?? this.names[0]));
    this.#arrange();
  }

  #arrange() {
    const isOne = this.threads.length === 1;
    const remove = (thread) => {
      thread.stop();
      this.threads = this.threads.filter((one) => one !== thread);
      this.#arrange();
    };
    fill(
      this.columns,
      this.threads.map((thread) =>
        h(
          "div.column",
          h(
            "div.bar.tight",
            thread.model,
            !isOne && button("✕", () => remove(thread), { class: "plain", "aria-label": "Remove this model" }),
          ),
          thread.log,
        ),
      ),
    );
    this.add.disabled = this.threads.length >= MAX_THREADS || this.names.length < 2;
    this.#changed();
  }

  /** Show whether any thread is waiting for a response. */
  #changed() {
    const isBusy = this.threads.some((one) => one.running);
    [this.send.disabled, this.stop.hidden] = [isBusy, !isBusy];
    if (!isBusy) this.#other();
  }

  #typed(event) {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    this.#ask();
  }

  #ask() {
    const text = this.input.value.trim();
    const tools = this.#readTools();
    if (!text || !tools || this.threads.some((one) => one.running)) return;
    this.columns.querySelector(".starts")?.remove();
    this.input.value = "";
    const given = { system: this.system.value.trim(), tools };
    for (const thread of this.threads) thread.ask(text, given);
  }

  #readTools() {
    this.wrong.textContent = "";
    this.tools.removeAttribute("aria-invalid");
    if (!this.withTools.checked) return [];
    try {
      const tools = this.tools.value.trim() ? JSON.parse(this.tools.value) : [];
      if (!Array.isArray(tools)) throw new Error("tools must be a JSON array: [ … ]");
      return tools;
    } catch (error) {
      this.wrong.textContent = error.message;
      this.tools.setAttribute("aria-invalid", "true");
      this.tools.closest("details").open = true;
      return null;
    }
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
    const ended = this.threads.flatMap((thread) => thread.ended);
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
    for (const thread of this.threads) thread.draw();
  }
}
