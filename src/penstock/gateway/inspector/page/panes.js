/**
 * One reading of one stream: the model's text in colours, and tabs beside it: the message, the events,
 * the request, the response, and details.
 *
 * The scrubber sets how much of it has arrived. An event has arrived when all text that it consumed
 * has, and its time has come; the rest is dimmed. While a stream runs, `grow` adds what arrives.
 */

import { button, fill, group, h, select } from "./dom.js";
import { EventList } from "./event_list.js";
import { folded, Folding, jsonText, messageView } from "./message.js";
import { requestView } from "./request_view.js";
import { Scrubber } from "./scrubber.js";
import { countWhile, eachFrame, pause } from "./slices.js";
import { tabs } from "./tabs.js";
import { legend, remark, TextView } from "./text.js";
import { count } from "./words.js";

/** The parts that may be truncated. */
const PARTS = {
  "upstream.text": "characters of the text",
  "upstream.raw": "bytes from the upstream",
  "upstream.timeline": "chunks in the plot",
  events: "events",
  messages: "messages of the request",
  "client.body": "characters sent to the client",
  strings: "characters of the longest string",
  request: "bytes of the request",
  upstream_request: "bytes of the upstream request",
  response: "bytes of the response",
};
/** From how many events and chunks on a stream is shown in stages. */
const LONG = 10_000;
/** How often the message of a running stream is drawn, in milliseconds. */
const MESSAGE = 400;
/** How events that consumed text are coloured while a stream runs. */
const LIVE_KINDS = { text_delta: "text", thinking_delta: "thinking", toolcall_delta: "arguments" };

export class Panes {
  /** `full` loads what was truncated. */
  constructor({ full } = {}) {
    this.full = full;
    this.scrubber = new Scrubber((number) => this.#reach(number));
    this.opened = "Message";
    this.text = new TextView({
      label: "Model output",
      point: (event) => this.#light(event),
      pick: (event) => this.#pick(event),
    });
    this.notes = h("div.notes");
    this.side = h("div.side");
    this.element = h(
      "div.panes",
      this.scrubber.element,
      this.notes,
      h(
        "div.both",
        h(
          "section.printed",
          { "aria-label": "Model output" },
          h("header", h("h2", "Model output"), legend()),
          this.text.element,
        ),
        this.side,
      ),
    );
  }

  /** Show `analysis`; a very long one in stages. */
  async show(analysis) {
    const { upstream = {}, events = [], remarks = [], row, timed } = analysis;
    const [pieces, spans] = [upstream.text_pieces ?? [], upstream.spans ?? []];
    const mine = (this.shows = (this.shows ?? 0) + 1);
    const isLong = events.length + pieces.length > LONG;
    const isOver = async () => isLong && (await pause(), mine !== this.shows);
    this.scrubber.pause();
    const offsets = offsetsOf(pieces);
    if (await isOver()) return;
    const read = endsOf(spans, events.length);
    if (await isOver()) return;
    const text = pieces.map(([, piece]) => piece).join("");
    if (await isOver()) return;
    Object.assign(this, {
      analysis,
      events,
      offsets,
      ...read,
      isTimed: timed === true,
      isLive: false,
      afterText: pieces.length,
    });
    this.times = this.#steps(pieces);
    this.text.show(text, spans, remarks, seamsOf(spans, events), analysis.unread);
    this.#showNotes(remarks, analysis.truncated);
    this.#showSide();
    if (await isOver()) return;
    const timeline = this.isTimed
      ? upstream.timeline?.length
        ? upstream.timeline
        : pieces.map(([time, piece]) => [time, piece.length])
      : null;
    const first = row?.first_token;
    this.scrubber.show(this.times, timeline, {
      first: first == null ? null : first * 1000,
      end: row ? row.duration * 1000 : 0,
      kinds: this.isTimed ? kindsOf(pieces, spans) : [],
    });
  }

  // --- a running stream ---

  /** Show a stream that runs: nothing yet, then what `grow` adds. */
  begin(analysis) {
    this.shows = (this.shows ?? 0) + 1;
    Object.assign(this, {
      analysis: { ...analysis, client: null, upstream: {} },
      events: [],
      offsets: new Float64Array(1),
      starts: [],
      ends: [],
      times: [],
      isTimed: true,
      isLive: true,
      afterText: 0,
      folding: new Folding(),
      timeline: [],
      kinds: [],
    });
    this.text.show("");
    this.#showNotes(analysis.remarks ?? [], {});
    this.#showSide();
    this.scrubber.show([], null);
  }

  /** Add events that arrived until `ms`, and the times and sizes of `chunks`. */
  grow({ ms, events, chunks }) {
    const [spans, texts] = [[], []];
    let at = this.text.text.length;
    for (const event of events) {
      const number = this.events.length;
      this.events.push([ms, event]);
      this.folding.add(event);
      const text = event.raw || (event.type.endsWith("_delta") && (event.text ?? event.arguments)) || "";
      this.starts.push(text ? at : -1);
      if (text) {
        const kind = LIVE_KINDS[event.type] ?? "marker";
        spans.push([at, at + text.length, kind, number]);
        this.kinds.push([ms, kind, text.length]);
        texts.push(text);
        at += text.length;
      }
      this.ends.push(at);
    }
    for (const chunk of chunks) this.timeline.push(chunk);
    if (texts.length) this.text.grow(texts.join(""), spans);
    this.arrived = this.events.length;
    this.list?.grow();
    this.tabs.badge("Events", count(this.events.length));
    if (this.timeline.length)
      this.scrubber.draw(this.timeline, { first: this.kinds[0]?.[0] ?? null, end: ms, kinds: this.kinds });
    this.scrubber.tell(`running · ${count(this.timeline.length)} chunks`);
    this.drawing ??= setTimeout(() => {
      this.drawing = null;
      if (this.isLive && this.messagePlace) fill(this.messagePlace, messageView(this.folding.message));
    }, MESSAGE);
  }

  /** The steps: one for each chunk of text, and then for the events after the last one. */
  #steps(pieces) {
    const times = pieces.map(([time]) => time);
    if (pieces.length && !this.isTimed) return times;
    const last = times.at(-1) ?? -1;
    for (const [time] of this.events) if (time > last) times.push(time);
    return times;
  }

  /** The shortcuts. */
  get keys() {
    const by = (number) => (event) => this.scrubber.step(number * (event.shiftKey ? 10 : 1));
    return {
      ArrowLeft: by(-1),
      ArrowRight: by(1),
      " ": () => this.scrubber.toggle(),
      j: () => this.#move(1),
      k: () => this.#move(-1),
    };
  }

  // --- beside the text ---

  #showSide() {
    const { row } = this.analysis;
    const panels = [
      ["Message", () => (this.messagePlace = group("Message", ""))],
      ["Events", () => this.#eventList(), count(this.events.length)],
    ];
    if (row) {
      panels.push(["Request", () => this.#request()]);
      panels.push(["Response", () => this.#response()]);
      panels.push(["Details", () => this.#details()]);
    } else if (this.analysis.client?.body) panels.push(["Response", () => this.#response()]);
    this.list = this.messagePlace = this.client = null;
    this.tabs = tabs("Parts of the stream", panels, this.opened);
    this.tabs.change = (name) => {
      this.opened = name;
      this.#follow();
    };
    fill(this.side, this.tabs.element);
  }

  #eventList() {
    this.list = new EventList({
      point: (event) => this.text.light(event),
      pick: (event) => {
        this.text.light(event);
        if (this.starts[event] >= 0) this.text.reveal(this.starts[event]);
      },
    });
    this.list.show(this.events, this.isTimed);
    return this.list.element;
  }

  /** The request, as the client sent it and as the upstream received it. */
  #request() {
    const { conversation, request, upstream_conversation: passed, upstream_request: sent } = this.analysis;
    return sides("Request", [
      ["from the client", () => requestView(conversation, request, "Request of the client")],
      sent && ["to the upstream", () => requestView(passed, sent, "Request to the upstream")],
    ]);
  }

  /** The response, as the upstream sent it and as the client received it. */
  #response() {
    const { client, upstream = {}, response, row } = this.analysis;
    const bytes = upstream.raw;
    return sides("Response", [
      client?.body && ["to the client", () => this.#clientView(client)],
      bytes && ["from the upstream", () => plain(bytes, "Bytes from the upstream")],
      response && row?.stream === true && ["as one message", () => group("Response", "", jsonText(response, "Response"))],
    ]);
  }

  /** The statistics and notes of the log. */
  #details() {
    const { row, usage, notes } = this.analysis;
    const section = (title, value) =>
      value && Object.keys(value).length ? h("section.part", h("h3", title), jsonText(value, title)) : null;
    return group(
      "Details",
      "message",
      section("Usage", usage),
      section("Notes", notes),
      section("Log entry", row),
    );
  }

  /** Show the client's bytes; each piece is highlighted with the event that wrote it. */
  #clientView({ api, body, pieces = [], note }) {
    const spans = pieces.map(([event, from, to]) => [from, to, "", event]);
    this.client = new TextView({
      label: `What the client received, as ${api}`,
      point: (event) => this.#light(event),
      pick: (event) => this.#pick(event),
    });
    this.client.places = pieces;
    this.client.show(body, spans);
    return h("div.events", note && h("p.hint", { text: note }), this.client.element);
  }

  #light(event) {
    this.text.light(event);
    this.client?.light(event);
    this.list?.light(event);
  }

  #pick(event) {
    this.tabs.open("Events");
    this.list.go(event);
  }

  #move(by) {
    this.tabs.open("Events");
    this.list.step(by);
  }

  /** Scroll the model's output to an offset. */
  reveal(offset) {
    this.text.reveal(offset);
    this.text.element.focus({ preventScroll: true });
  }

  #showNotes(remarks, truncated = {}) {
    const cut = Object.entries(truncated ?? {}).map(
      ([what, [shown, total]]) => `${count(shown)} of ${count(total)} ${PARTS[what] ?? what}`,
    );
    fill(
      this.notes,
      remarks
        .filter((one) => !Number.isInteger(one.at) && one.kind !== "unread")
        .slice(0, 20)
        .map((one) => h("p", remark(one))),
      cut.length
        ? h(
            "p.quiet",
            `This stream is long. Shown are ${cut.join(", ")}. `,
            this.full && button("Load all", this.full),
          )
        : null,
    );
  }

  // --- how much has arrived ---

  #reach(number) {
    if (!this.events || this.isLive) return;
    const isAll = number >= this.times.length;
    const offset = this.offsets[Math.min(number, this.afterText)] ?? 0;
    const time = number ? this.times[number - 1] : -1;
    this.text.reach(isAll ? this.text.text.length : offset);
    this.arrived = isAll
      ? this.events.length
      : countWhile(
          this.events.length,
          (at) =>
            this.ends[at] <= offset && (this.events[at][0] <= time || (!this.isTimed && this.afterText > 0)),
        );
    if (!isAll) this.text.reveal(Math.max(0, offset - 1));
    this.#follow();
  }

  #follow = eachFrame(() => {
    this.list?.reach(this.arrived);
    if (this.client) {
      const number = countWhile(this.client.places.length, (at) => this.client.places[at][0] < this.arrived);
      const isAll = this.arrived >= this.events.length;
      const offset =
        isAll || !this.client.places.length
          ? this.client.text.length
          : (this.client.places[number - 1]?.[2] ?? 0);
      this.client.reach(offset);
      if (!isAll && this.tabs.opened === "Response") this.client.reveal(Math.max(0, offset - 1));
    }
    if (this.tabs?.opened === "Message" && this.messagePlace) {
      const isAll = this.arrived >= this.events.length && !this.isLive;
      fill(this.messagePlace, messageView(isAll ? this.analysis.message : folded(this.events, this.arrived)));
    }
  });
}

/** One of several sides of the same thing, with a choice between them. */
function sides(label, all) {
  const known = all.filter(Boolean);
  if (!known.length) return h("p.quiet", "Nothing is stored.");
  const place = h("div.events");
  const show = (name) => fill(place, known.find(([one]) => one === name)[1]());
  const choice = select(
    known.map(([name]) => name),
    known[0][0],
    show,
    `Side of the ${label.toLowerCase()}`,
  );
  show(known[0][0]);
  return h("div.events", known.length > 1 && h("div.bar.tight", choice), place);
}

function plain(text, label) {
  const view = new TextView({ label });
  view.show(text);
  return view.element;
}

/** Find where the text of each event starts, and where all events up to it are complete. */
function endsOf(spans, number) {
  const [starts, ends] = [new Float64Array(number).fill(-1), new Float64Array(number)];
  for (const [from, to, , event] of spans) {
    if (!(event >= 0 && event < number)) continue;
    if (starts[event] < 0) starts[event] = from;
    ends[event] = Math.max(ends[event], to);
  }
  for (let at = 1; at < number; at += 1) ends[at] = Math.max(ends[at], ends[at - 1]);
  return { starts, ends };
}

/** Find where native blocks start and end: there is no text between them. */
function seamsOf(spans, events) {
  const seams = new Map();
  let [block, isNative] = [-1, false];
  for (const [from, , , event, note] of spans) {
    const next = events[event]?.[1].index ?? block;
    const begins = note === "native";
    if (begins) seams.set(from, note);
    else if (next !== block && isNative) seams.set(from, "");
    if (next !== block) isNative = begins;
    block = next;
  }
  return seams;
}

function offsetsOf(pieces) {
  const offsets = new Float64Array(pieces.length + 1);
  pieces.forEach(([, piece], at) => (offsets[at + 1] = offsets[at] + piece.length));
  return offsets;
}

/** Return when how many characters of which kind arrived: `[ms, kind, characters]`. */
function kindsOf(pieces, spans) {
  const found = [];
  let [next, offset] = [0, 0];
  for (const [time, piece] of pieces) {
    const end = offset + piece.length;
    while (next < spans.length && spans[next][0] < end) {
      const [from, to, kind] = spans[next];
      found.push([time, kind, Math.min(to, end) - Math.max(from, offset)]);
      if (to > end) break;
      next += 1;
    }
    offset = end;
  }
  return found;
}
