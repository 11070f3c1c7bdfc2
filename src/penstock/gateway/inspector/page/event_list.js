/**
 * The events of a stream as a list; neighbouring deltas of a block are one row unless one asks for
 * each of them.
 */

import { brief, closing, fill, h, written } from "./dom.js";
import { jsonText } from "./message.js";
import { Rows } from "./rows.js";
import { countWhile } from "./slices.js";
import { count, gist } from "./words.js";

const ROW = 28;
const KINDS = { text: "text", thinking: "thinking", toolcall: "arguments", done: "end", error: "bad" };
/** How many characters of merged deltas a row shows. */
const SHOWN = 200;

export class EventList {
  /** `point(event)` and `pick(event)` are called with the number of an event. */
  constructor({ point, pick }) {
    this.pick = pick;
    this.events = [];
    this.firsts = []; // the number of the first event of each row
    this.arrived = 0;
    this.isMerged = true;
    this.detail = h("div.detail", { hidden: true });
    this.rows = new Rows({
      label: "Events",
      height: ROW,
      draw: (at) => this.#draw(at),
      move: (at) => this.#chosen(at),
      point: (at) => point(at < 0 ? -1 : this.firsts[at]),
    });
    const merged = h("input", { type: "checkbox", on: { change: () => this.#merge(merged.checked) } });
    merged.checked = true;
    this.told = h("span.quiet");
    this.element = h(
      "div.events",
      h("div.bar.tight", h("label.check", merged, "merge deltas"), this.told),
      this.rows.element,
      this.detail,
    );
  }

  /** Show `events`, pairs of a time and an event. */
  show(events, isTimed) {
    Object.assign(this, { events, isTimed, arrived: events.length });
    this.#group(0);
    this.rows.resize(this.firsts.length);
    this.#tell();
  }

  /** Show the events that were added to the list since. */
  grow() {
    const [before, box] = [this.firsts.length, this.rows.element];
    const isLow = box.scrollTop + box.clientHeight > box.scrollHeight - 3 * ROW;
    this.arrived = this.events.length;
    this.#group(this.grouped);
    this.rows.resize(this.firsts.length, false);
    if (before) this.rows.redraw(before - 1);
    if (isLow) box.scrollTop = box.scrollHeight;
    this.#tell();
  }

  /** Dim the rows whose events have not arrived. */
  reach(arrived) {
    this.arrived = arrived;
    for (const [at, row] of this.rows.drawn) row.classList.toggle("ahead", this.firsts[at] >= arrived);
    if (arrived < this.events.length && arrived) this.rows.reveal(this.#rowOf(arrived - 1));
  }

  /** Highlight the row of an event. */
  light(event) {
    this.rows.element.querySelector(".lit")?.classList.remove("lit");
    if (event >= 0) this.rows.row(this.#rowOf(event))?.classList.add("lit");
  }

  /** Select the row of an event. */
  go(event) {
    this.rows.go(this.#rowOf(event));
  }

  /** Select the next or previous row. */
  step(by) {
    this.rows.go(this.rows.current + by);
  }

  #rowOf(event) {
    return Math.max(0, countWhile(this.firsts.length, (at) => this.firsts[at] <= event) - 1);
  }

  #merge(isMerged) {
    this.isMerged = isMerged;
    const event = this.firsts[this.rows.current] ?? -1;
    this.#group(0);
    this.rows.resize(this.firsts.length);
    if (event >= 0) this.rows.go(this.#rowOf(event), true);
    this.#tell();
  }

  #group(from) {
    if (!from) this.firsts = [];
    for (let at = from; at < this.events.length; at += 1)
      if (!this.isMerged || !this.#continues(at)) this.firsts.push(at);
    this.grouped = this.events.length;
  }

  /** Whether an event is a delta of the same block as the one before it. */
  #continues(at) {
    const [event, before] = [this.events[at][1], this.events[at - 1]?.[1]];
    return before?.type === event.type && before.index === event.index && event.type.endsWith("_delta");
  }

  #tell() {
    const [rows, events] = [this.firsts.length, this.events.length];
    this.told.textContent = rows === events ? `${count(events)} events` : `${count(events)} events in ${count(rows)} rows`;
  }

  #draw(at) {
    const first = this.firsts[at];
    const [time, event] = this.events[first];
    const kind = KINDS[event.type?.split("_")[0]] ?? "end";
    const number = this.#end(at) - first;
    return h(
      "div",
      { class: `event ${first >= this.arrived ? "ahead" : ""}` },
      h("span.figure", this.isTimed ? `${Math.round(time)} ms` : `#${Math.round(time)}`),
      h("span", { class: `type t-${kind}` }, String(event.type), number > 1 && h("small", ` ×\u2060${count(number)}`)),
      h("span.gist", written(brief(this.#gist(first, first + number)))),
    );
  }

  #end(at) {
    return this.firsts[at + 1] ?? this.events.length;
  }

  #gist(first, end) {
    let text = "";
    for (let at = first; at < end && text.length < SHOWN; at += 1) text += gist(this.events[at][1]);
    return text;
  }

  #chosen(at) {
    const [first, end] = [this.firsts[at], this.#end(at)];
    this.pick(first);
    this.detail.hidden = false;
    const event = this.events[first][1];
    const shown = end - first > 1 ? { ...event, ...this.#joined(first, end) } : event;
    fill(
      this.detail,
      h(
        "header",
        h("b", end - first > 1 ? `Events ${count(first)} to ${count(end - 1)}` : `Event ${count(first)}`),
        closing(() => (this.detail.hidden = true)),
      ),
      jsonText(shown, "Event"),
    );
  }

  /** Join the texts of a run of deltas. */
  #joined(first, end) {
    const joined = {};
    for (const name of ["text", "arguments", "raw"]) {
      const pieces = [];
      for (let at = first; at < end; at += 1) pieces.push(this.events[at][1][name] ?? "");
      if (name in this.events[first][1]) joined[name] = pieces.join("");
    }
    return joined;
  }
}
