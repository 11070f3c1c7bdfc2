/**
 * One row of a list of streams, the headings above it, and what is shown when there are none.
 */

import { ask } from "./api.js";
import { button, coded, h, say, svg } from "./dom.js";
import { TOOLS } from "./demo_tools.js";
import { formatsOf } from "./filters.js";
import { callWords, count, ending, many, moment, mood, seconds, unreadCount, unreadWords } from "./words.js";

/** On a narrow screen a row has more lines. */
export const NARROW = matchMedia("(max-width: 1000px)");

/** The height of a row, in pixels. */
export const rowHeight = () => (NARROW.matches ? 88 : 42);

const HEADS = [
  ["Time", ""],
  ["Prompt → response", null],
  ["Model", null],
  ["Result", null],
  ["Tokens", "output_tokens"],
  ["First token", "first_token"],
  ["Duration", "duration"],
];

/** The headings; those of columns that can be sorted are buttons, which call `sort(name)`. */
export function heading(current, sort) {
  const head = ([words, name]) =>
    name === null
      ? h("span", words)
      : button([words, current === name ? " ▾" : ""], () => sort(name), {
          class: "link",
          "aria-pressed": String(current === name),
          title: name ? `Sort by ${words.toLowerCase()}, largest first` : "Sort by time, newest first",
        });
  return h("div.heads", { role: "group", "aria-label": "Sort by" }, HEADS.map(head));
}

/** Draw one row. */
export function drawRow(row) {
  const repairs = row.repairs?.length ?? 0;
  const calls = [callWords(row), unreadCount(row)].filter(Boolean).join(" · ");
  const says = row.summary
    ? [h("span.arrow", " → "), h(row.calls > (row.incomplete ?? 0) ? "b.k-name" : "span", { text: row.summary })]
    : row.state === "started"
      ? h("span.quiet", " → …")
      : [];
  const cells = [
    h("span.when", moment(row.created)),
    h(
      "span.happened",
      h("span.brief", h("span", { text: row.prompt || row.path || "–" }), says),
      row.unread
        ? h("small.unread", { title: row.unread_reason }, "⚠ ", coded(unreadWords(row)))
        : row.error_message && row.state === "failed"
          ? h("small.wrong", { text: row.error_message.slice(0, 200), title: row.error_message.slice(0, 2000) })
          : h("small", { text: row.error_message || sentTo(row) }),
    ),
    h(
      "span.asked",
      h("b", { text: row.model || "–", title: row.model }),
      h("small", { text: formatsOf(row).join(", ") || (row.state === "done" ? "no calls" : "") }),
    ),
    h(
      "span",
      { class: `ended ${mood(row)}` },
      h("span.pill", { text: ending(row) }),
      h(
        "small",
        calls,
        repairs > 0 && h("span.mended", { title: row.repairs.join("\n") }, `${calls ? " · " : ""}✎ ${many(repairs, "repair")}`),
      ),
    ),
    h(
      "span.figure",
      row.output_tokens ? `${count(row.output_tokens)} out` : "–",
      h("small", row.input_tokens ? `${count(row.input_tokens)} in` : ""),
    ),
    h("span.figure", seconds(row.first_token)),
    h("span.figure", row.state === "started" && !row.duration ? "…" : seconds(row.duration), spark(row)),
  ];
  const link = h("a", { href: `#/streams/${encodeURIComponent(row.id)}`, tabindex: -1 }, cells);
  return h("div", { class: `stream ${mood(row)}` }, link);
}

const sentTo = (row) =>
  `${row.client_api || "–"} → ${row.upstream || "no upstream"}${row.messages > 1 ? ` · ${count(row.messages)} messages` : ""}`;

/** Draw the duration and the time to the first token on a logarithmic scale. */
function spark({ duration, first_token: first }) {
  const width = (value) => Math.max(1, Math.min(64, 16 * Math.log10(1 + (value ?? 0) * 100)));
  if (!duration) return null;
  const all = width(duration);
  return svg(
    "svg.spark",
    { width: 64, height: 4, "aria-hidden": "true" },
    svg("rect.flow", { width: all, height: 4, rx: 2 }),
    first && svg("rect.wait", { width: Math.min(all, width(first)), height: 4, rx: 2 }),
  );
}

/** What is shown if no stream matches the filters. */
export const nothingFound = (clear) => [
  h("h2", "No matches"),
  h("p", "No stream matches these filters."),
  h("p", button("Clear all filters", clear)),
];

/** What is shown if there is no stream: a request to send, from here or from a terminal. */
export function nothingYet({ demo = "", models = [] } = {}) {
  const model = demo || models[0] || "demo";
  const send = button(`Send a demo request to ${model}`, () => sendDemo(model, send), { class: "primary" });
  const body = { model, stream: true, messages: [{ role: "user", content: "Hello!" }] };
  return [
    h("h2", "No streams yet"),
    h(
      "p",
      "Requests to this gateway appear here while they run. Send one with a tool call, or try the ",
      h("a", { href: "#/chat" }, "chat"),
      ".",
    ),
    h("p", send),
    h(
      "pre.sample",
      `curl ${location.origin}/v1/chat/completions \\\n  -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body)}'`,
    ),
  ];
}

/** Send a request for which a model calls a tool, and read its response to the end. */
async function sendDemo(model, control) {
  control.disabled = true;
  try {
    const messages = [{ role: "user", content: "What is the weather in Oslo?" }];
    const body = { model, stream: true, messages, tools: TOOLS };
    const response = await ask("/v1/chat/completions", { method: "POST", body, accept: "text/event-stream" });
    await response.text();
  } catch (error) {
    say(error.message);
  } finally {
    control.disabled = false;
  }
}
