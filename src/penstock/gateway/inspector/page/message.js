/**
 * A message, complete or in progress: text, thinking and calls.
 */

import { button, h } from "./dom.js";
import { TextView } from "./text.js";
import { count } from "./words.js";

/** Up to this length texts are shown in full; longer ones in a view that scrolls. */
const SHORT = 4000;

/** The longest value that is shown as JSON without a click. */
const MAX_CARD = 100_000;

const REASONS = { stop: "stop", length: "token limit", tool_use: "tool calls", aborted: "client left" };

/** Show `message`. */
export function messageView(message) {
  const { content = [], stop_reason: reason, error, usage } = message ?? {};
  const parts = content.map(part);
  const end = reason && h("p.end", "ends with ", h("span.pill", { text: REASONS[reason] ?? reason }), usageLine(usage));
  return h(
    "div.message",
    parts.length ? parts : h("p.quiet", "Empty so far."),
    error && h("p.wrong", { role: "note", text: `${error.kind ?? "error"}: ${error.message ?? ""}` }),
    end,
  );
}

function usageLine(usage) {
  const known = Object.entries(usage ?? {}).filter(([, value]) => Number.isFinite(value) && value > 0);
  return known.length
    ? h(
        "span.quiet",
        ` ${known.map(([name, value]) => `${count(value)} ${name.replace("_", " ")}`).join(" · ")}`,
      )
    : null;
}

/** Show one block of a message; `isBrief` folds reasoning, and shows a call on one line. */
export function part(one, isBrief = false) {
  switch (one.type) {
    case "text":
      return h(
        "section.part",
        { "aria-label": "Text" },
        one.text?.trim() ? longText(one.text, "Text") : h("small", "white space"),
      );
    case "thinking":
      return h(
        "details.part.thinking",
        { open: !isBrief },
        h("summary", "thinking"),
        longText((one.text ?? "").replace(/^\n+|\n+$/gu, ""), "Thinking"),
      );
    case "tool_call":
      return isBrief ? briefCall(one) : call(one);
    default:
      return h("section.part", { "aria-label": "Provider-specific part" }, jsonText(one, "Part"));
  }
}

function briefCall({ name, arguments: given, complete, repairs = [] }) {
  return h(
    "section",
    { class: `part call brief-call ${complete === false ? "cut" : ""}`, "aria-label": "Call" },
    h("b.k-name", { text: name || "?" }),
    longText(JSON.stringify(given ?? {}), "Arguments"),
    complete === false && h("span.pill", "not complete: not run"),
    repairs.map((words) => h("p.mended", { text: `✎ ${words}` })),
  );
}

function call({ id, name, arguments: given, text, complete, repairs = [] }) {
  const state = complete === undefined ? "in progress" : complete ? "complete" : "not complete: not run";
  return h(
    "section",
    { class: `part call ${complete === false ? "cut" : ""}`, "aria-label": "Call" },
    h(
      "header",
      h("b.k-name", { text: name || "?" }),
      h("span.pill", state),
      h("code.quiet", { text: id ?? "" }),
    ),
    text === undefined ? jsonText(given ?? {}, "Arguments") : longText(text, "Arguments"),
    repairs.map((words) => h("p.mended", { text: `✎ ${words}` })),
  );
}

/** Show a text of any length. */
export function longText(text, label) {
  if (text.length <= SHORT) return h("div.prose", { text });
  const view = new TextView({ label });
  view.show(text);
  view.element.classList.add("boxed");
  return view.element;
}

/** Show a value as indented JSON; a very large one after a click. */
export function jsonText(value, label) {
  const text = JSON.stringify(value, null, 2) ?? "";
  if (text.length <= MAX_CARD) return longText(text, label);
  const place = h("div.prose", `${count(text.length)} characters `);
  place.append(button("Show", () => place.replaceWith(longText(text, label))));
  return place;
}

/** Folds events into a message in progress, one after the other. */
export class Folding {
  constructor() {
    this.content = [];
    this.end = null;
  }

  /** Add an event. */
  add(event) {
    const block = this.content[event.index];
    switch (event.type) {
      case "text_start":
        this.content[event.index] = { type: "text", pieces: [] };
        break;
      case "thinking_start":
        this.content[event.index] = { type: "thinking", pieces: [] };
        break;
      case "toolcall_start":
        this.content[event.index] = { type: "tool_call", id: event.id, name: event.name, pieces: [] };
        break;
      case "text_delta":
      case "thinking_delta":
        block?.pieces?.push(event.text);
        break;
      case "toolcall_delta":
        block?.pieces?.push(event.arguments);
        break;
      case "toolcall_end":
        this.content[event.index] = event.call;
        break;
      case "part":
        this.content[event.index] = event.part;
        break;
      case "done":
      case "error":
        this.end = event;
        break;
      default:
    }
  }

  /** The message so far. */
  get message() {
    const { end } = this;
    if (end?.message?.content) return end.message;
    const content = this.content
      .filter(Boolean)
      .map((one) => (one.pieces ? { ...one, text: one.pieces.join("") } : one));
    return end ? { content, stop_reason: end.reason, error: end.error } : { content };
  }
}

/** Fold the first `number` events into a message in progress. */
export function folded(events, number) {
  const folding = new Folding();
  for (let at = 0; at < number && !folding.end; at += 1) folding.add(events[at][1]);
  return folding.message;
}
