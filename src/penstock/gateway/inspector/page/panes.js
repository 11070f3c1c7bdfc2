/**
 * One reading of one stream: the model's text in colours, and the parsed events beside it.
 *
 * The scrubber sets how much of it has arrived. An event has arrived when all text that it consumed
 * has, and its time has come; the rest is dimmed.
 */

import { brief, button, closing, fill, group, h, written } from "./dom.js";
import { folded, jsonText, messageView } from "./message.js";
import { Rows } from "./rows.js";
import { Scrubber } from "./scrubber.js";
import { countWhile, eachFrame, pause } from "./slices.js";
import { tabs } from "./tabs.js";
import { legend, remark, TextView } from "./text.js";
import { count, gist } from "./words.js";

const ROW = 28;
/** The parts that may be truncated. */
const PARTS = {
  "upstream.text": "characters of the text",
  "upstream.raw": "bytes from the upstream",
  "upstream.timeline": "chunks in the plot",
  events: "events",
  "client.body": "characters sent to the client",
  strings: "characters of the longest string",
  request: "bytes of the request",
  upstream_request: "bytes of the upstream request",
  response: "bytes of the response",
};
/** From how many events and chunks on a stream is shown in stages. */
const LONG = 10_000;

export class Panes {
  /** `full` loads what was truncated. */
  constructor({ full } = {}) {
    this.full = full;
    this.scrubber = new Scrubber((number) => this.#reach(number));
    this.opened = "Events";
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

  /** Show `analysis`, with `further` tabs about the request; a very long one in stages. */
  async show(analysis, further = []) {
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
      afterText: pieces.length,
    });
    this.times = this.#steps(pieces);
    this.text.show(text, spans, remarks, seamsOf(spans, events));
    this.#showNotes(remarks, analysis.truncated);
    this.#showSide(further);
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
    });
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

  #showSide(further) {
    const { client, upstream = {} } = this.analysis;
    const panels = [
      ["Events", () => this.#eventList(), count(this.events.length)],
      ["Message", () => (this.messagePlace = group("Message", ""))],
    ];
    if (client?.body) panels.push(["Client", () => this.#clientView(client)]);
    if (upstream.raw) panels.push(["Bytes", () => plain(upstream.raw, "Bytes from the upstream")]);
    for (const [name, value] of further) {
      panels.push([
        name,
        () => (typeof value === "string" ? plain(value, name) : group(name, "", jsonText(value, name))),
      ]);
    }
    this.list = this.messagePlace = this.client = null;
    this.tabs = tabs("Details", panels, this.opened);
    this.tabs.change = (name) => {
      this.opened = name;
      this.#follow();
    };
    fill(this.side, this.tabs.element);
  }

  #eventList() {
    this.detail = h("div.detail", { hidden: true });
    this.list = new Rows({
      label: "Events",
      height: ROW,
      draw: (at) => this.#row(at),
      move: (at) => this.#chosen(at),
      point: (at) => this.text.light(at),
    });
    this.list.resize(this.events.length);
    return h("div.events", this.list.element, this.detail);
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

  #row(at) {
    const [time, event] = this.events[at];
    const kind =
      { text: "text", thinking: "thinking", toolcall: "arguments", done: "end", error: "bad" }[
        event.type?.split("_")[0]
      ] ?? "end";
    return h(
      "div",
      { class: `event ${at >= this.arrived ? "ahead" : ""}` },
      h("span.figure", this.isTimed ? `${Math.round(time)} ms` : `#${Math.round(time)}`),
      h("span", { class: `type t-${kind}` }, String(event.type)),
      h("span.gist", written(brief(gist(event)))),
    );
  }

  #chosen(at) {
    const event = this.events[at][1];
    this.text.light(at);
    if (this.starts[at] >= 0) this.text.reveal(this.starts[at]);
    this.detail.hidden = false;
    fill(
      this.detail,
      h(
        "header",
        h("b", `Event ${count(at)}`),
        closing(() => (this.detail.hidden = true)),
      ),
      jsonText(event, `Event ${at}`),
    );
  }

  #light(event) {
    this.text.light(event);
    this.client?.light(event);
    this.list?.element.querySelector(".lit")?.classList.remove("lit");
    this.list?.row(event)?.classList.add("lit");
  }

  #pick(event) {
    this.tabs.open("Events");
    this.list.go(event);
  }

  #move(by) {
    this.tabs.open("Events");
    this.list.go(this.list.current + by);
  }

  #showNotes(remarks, truncated = {}) {
    const cut = Object.entries(truncated ?? {}).map(
      ([what, [shown, total]]) => `${count(shown)} of ${count(total)} ${PARTS[what] ?? what}`,
    );
    fill(
      this.notes,
      remarks
        .filter((one) => !Number.isInteger(one.at))
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
    if (!this.events) return;
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
    if (this.list) {
      for (const [at, row] of this.list.drawn) row.classList.toggle("ahead", at >= this.arrived);
      if (this.arrived < this.events.length && this.arrived) this.list.reveal(this.arrived - 1);
    }
    if (this.client) {
      const number = countWhile(this.client.places.length, (at) => this.client.places[at][0] < this.arrived);
      const isAll = this.arrived >= this.events.length;
      const offset =
        isAll || !this.client.places.length
          ? this.client.text.length
          : (this.client.places[number - 1]?.[2] ?? 0);
      this.client.reach(offset);
      if (!isAll && this.tabs.opened === "Client") this.client.reveal(Math.max(0, offset - 1));
    }
    if (this.tabs?.opened === "Message" && this.messagePlace) {
      const isAll = this.arrived >= this.events.length;
      fill(this.messagePlace, messageView(isAll ? this.analysis.message : folded(this.events, this.arrived)));
    }
  });
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
