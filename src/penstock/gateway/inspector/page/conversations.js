/**
 * Conversations: the requests of one agent run as turns, with tool results and totals.
 */

import { aboutLog, askJSON, askLong, withQuery } from "./api.js";
import { button, coded, fill, group, h } from "./dom.js";
import { message } from "./request_view.js";
import { callWords, count, ending, many, moment, mood, seconds, tokenWords, unreadWords } from "./words.js";

const PAGE = 50;
/** After how many milliseconds the list is loaded again, and a conversation with running requests. */
const LATER = 5000;
const AGAIN = 2000;
/** How many turns are drawn at first: one is a few dozen elements. */
const DRAWN = 60;

/** Show the list, or the conversation whose id is in the address. */
export async function conversations(main, rest, signal) {
  await aboutLog();
  if (rest && !location.hash.includes("?")) return conversation(main, decodeURIComponent(rest), signal);
  const list = h("ol.runs");
  const more = h("p");
  fill(main, h("h1", "Conversations"), h("p.quiet", ABOUT), list, more);
  let rows = [];
  const load = async (before) => {
    const page = await askJSON(withQuery("/inspector/api/conversations", { limit: PAGE, before }), { signal });
    if (!before && rows.length > PAGE) return 0; // older ones are shown: the list stays as it is
    rows = before ? [...rows, ...page.data] : page.data;
    update(list, rows.map((one) => [JSON.stringify(one), () => summary(one)]));
    fill(more, page.next ? button("Show more", () => load(page.next)) : null);
    if (!rows.length) fill(more, h("span.quiet", "No conversation of several requests yet."));
    return LATER;
  };
  await repeat(() => load(""), signal);
  return { Escape: () => (location.hash = "#/streams") };
}

const ABOUT =
  "Requests of one agent run: those with the same session, and those whose messages continue the messages of an earlier request.";

/** One conversation of the list. */
function summary(one) {
  const facts = [
    many(one.requests, "request"),
    callWords(one),
    one.repaired ? many(one.repaired, "repaired response") : "",
    one.unread ? many(one.unread, "unread call") : "",
    one.failed ? `${count(one.failed)} failed` : "",
    tokenWords(one.input_tokens, one.output_tokens),
    seconds(one.duration),
  ];
  const look = one.failed ? "bad" : one.unread || one.incomplete ? "odd" : one.running ? "busy" : "good";
  return h(
    "li",
    { class: `run ${look}` },
    h(
      "a",
      { href: `#/conversations/${encodeURIComponent(one.id)}` },
      h("span.brief", h("b", { text: one.prompt || one.id }), h("span.arrow", " → "), h("span", { text: one.summary || "…" })),
      h("small", { text: [moment(one.created), one.model, ...facts].filter(Boolean).join(" · ") }),
    ),
  );
}

/** Show one conversation. */
async function conversation(main, id, signal) {
  const path = `/inspector/api/conversations/${encodeURIComponent(id)}`;
  const place = h("div.turns");
  const head = h("header.head");
  const outline = h("ol.outline", { "aria-label": "Turns of the conversation" });
  fill(main, head, h("div.run-view", outline, group("Turns", "", place)));
  let drawn = "";
  const load = async () => {
    const found = await askLong(path, { signal });
    const now = JSON.stringify(found.rows);
    if (now !== drawn && !signal.aborted) draw(head, outline, place, id, found);
    drawn = now;
    return found.rows.some((row) => row.state === "started") ? AGAIN : LATER;
  };
  await repeat(load, signal);
  return { Escape: () => (location.hash = "#/conversations") };
}

/** Call `load`, and again after as many milliseconds as it returns, until `signal` or a 0. */
async function repeat(load, signal) {
  const next = (time) => time && !signal.aborted && setTimeout(again, time);
  const again = () => (document.hidden ? next(LATER) : load().then(next, () => next(LATER)));
  next(await load());
}

/** Make the children of `place` those of `items`, `[key, make]`; the ones with known keys are kept. */
function update(place, items) {
  const before = place.known ?? new Map();
  place.known = new Map(items.map(([key, make]) => [key, before.get(key) ?? make()]));
  const all = [...place.known.values()];
  for (const one of [...place.children]) if (!all.includes(one)) one.remove();
  all.forEach((one, at) => place.children[at] === one || place.insertBefore(one, place.children[at] ?? null));
}

function draw(head, outline, place, id, { rows, messages = [], first = 0, tools = [] }) {
  const sum = (read) => rows.reduce((total, row) => total + (read(row) ?? 0), 0);
  const totals = [
    ["requests", count(rows.length)],
    ["calls", callWords({ calls: sum((row) => row.calls), incomplete: sum((row) => row.incomplete) }) || "none"],
    ["repairs", count(sum((row) => row.repairs.length))],
    ["unread calls", count(sum((row) => row.unread))],
    ["failed", count(rows.filter((row) => row.state === "failed").length)],
    ["usage", tokenWords(sum((row) => row.input_tokens), sum((row) => row.output_tokens)) || "–"],
    ["time in models", seconds(sum((row) => row.duration))],
    ["tools offered", count(tools.length)],
  ];
  fill(
    head,
    h(
      "div.title",
      h("a", { href: "#/conversations", class: "back", "aria-label": "Back to the conversations" }, "←"),
      h("h1", { text: rows[0].prompt || `Conversation ${id}` }),
      h("time.quiet", moment(rows[0].created)),
      h("a", { href: `#/streams?${new URLSearchParams({ conversation: id })}` }, "Show its streams in the list"),
    ),
    h(
      "dl.facts",
      totals.map(([name, value]) => h("div", h("dt", name), h("dd", { text: value }))),
    ),
  );
  const turns = [];
  let shown = 0; // how many messages the turns before have shown
  for (const [at, row] of rows.entries()) {
    const fresh = messages.slice(Math.max(0, shown - first), Math.max(0, row.messages - first));
    const given = fresh.filter((one) => one.role !== "assistant");
    const isAgain = at > 0 && row.messages <= rows[at - 1].messages;
    const answer = messages[row.messages - first];
    const reply = answer?.role === "assistant" ? answer : null;
    const key = JSON.stringify([row, given.length, !reply, isAgain]);
    turns.push([key, () => turn(at, row, isAgain ? [] : given, reply, isAgain)]);
    shown = Math.max(shown, row.messages);
  }
  const all = () => update(place, turns);
  const isLong = turns.length > DRAWN && !(place.children.length > DRAWN + 1);
  const rest = [`${turns.length}`, () => button(`Show ${many(turns.length - DRAWN, "more turn")}`, all)];
  update(place, isLong ? [...turns.slice(0, DRAWN), rest] : turns);
  const go = (at) => {
    if (at >= DRAWN) all();
    const target = place.querySelectorAll(".turn")[at];
    target.scrollIntoView({ block: "start" });
    target.focus({ preventScroll: true });
  };
  fill(outline, rows.map((row, at) => h("li", { class: mood(row) }, button(outlined(row, at), () => go(at)))));
}

/** One line of the outline: what happened in a turn, and how long it took. */
const outlined = (row, at) => [
  h("span.figure", String(at + 1)),
  h("span.brief", { text: row.unread ? `⚠ ${row.summary}` : row.summary || ending(row) }),
  h("span.figure", seconds(row.duration)),
];

/** One turn: what the client added, and how the model responded. */
function turn(at, row, given, answer, isAgain) {
  const calls = callWords(row);
  const facts = [calls, row.output_tokens > 0 && `${count(row.output_tokens)} tokens`, seconds(row.duration)];
  return h(
    "section",
    { class: `turn ${mood(row)}`, "aria-label": `Turn ${at + 1}`, tabindex: -1 },
    h(
      "header",
      h("h2", `Turn ${at + 1}`),
      h("span.ended", h("span.pill", { text: ending(row) })),
      h("span.quiet", { text: facts.filter(Boolean).join(" · ") }),
      row.repairs.length ? h("span.mended", `✎ ${many(row.repairs.length, "repair")}`) : null,
      h("a", { href: `#/streams/${encodeURIComponent(row.id)}` }, "Open the stream"),
    ),
    row.unread ? h("p.unread", "⚠ ", coded(unreadWords(row))) : null,
    row.error_message ? h("p.wrong", { text: row.error_message.slice(0, 500) }) : null,
    isAgain ? h("p.quiet", "The same messages were sent again.") : given.map((one) => message(one, true)),
    answer ? message(answer, true) : h("p", h("span.arrow", "→ "), h("span", { text: row.summary || "…" })),
  );
}
