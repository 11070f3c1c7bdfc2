/**
 * One stream: the model's output, the parsed events, and what the client received.
 */

import { about, aboutLog, askJSON, askLong, askSoon, askText, withQuery } from "./api.js";
import { button, copy, dialog, download, field, fill, group, h, say, select } from "./dom.js";
import { Panes } from "./panes.js";
import { ARGUMENTS, count, ending, many, moment, mood, seconds } from "./words.js";

const AGAIN = 1000;
const RUNNING = {
  at: null,
  kind: "running",
  text: "This stream is still running. Its content is shown when it has ended.",
};
const BARE = "The bodies of this stream were not stored (store.bodies = false), so only its statistics are shown.";
const MAX_CHANGES = 100;
/** How much of one difference is shown, in characters. */
const MAX_CHANGE = 20_000;

/** Show the stream with the id in the address. */
export async function stream(main, rest, signal) {
  const id = decodeURIComponent(rest);
  const path = `/inspector/api/streams/${encodeURIComponent(id)}`;
  fill(main, h("p.empty", "Loading the stream …"));
  await aboutLog();
  const view = new Stream(main, path, signal);
  view.take(await askSoon(path, { signal }));
  document.title = `${view.analysis.row.model} · Penstock inspector`;
  return { ...view.panes.keys, Escape: () => (location.hash = "#/streams"), r: () => view.replay() };
}

class Stream {
  constructor(main, path, signal) {
    Object.assign(this, { main, path, signal });
    this.head = h("header.head");
    this.banner = h("div.banner", { hidden: true });
    const full = () => (this.banner.hidden ? this.#load("1") : this.#replayed(this.asked, "1"));
    this.panes = new Panes({ full });
    fill(main, this.head, this.banner, this.panes.element);
  }

  /** Show an analysis; while the stream runs, request it again. */
  take(analysis) {
    this.analysis = analysis;
    fill(this.main, this.head, this.banner, this.panes.element);
    this.#showHead();
    const isRunning = analysis.row.state === "started";
    const said = isRunning ? RUNNING : this.isBare ? { at: null, kind: "bare", text: BARE } : [];
    analysis.remarks = [analysis.remarks ?? [], said].flat();
    this.#show(analysis);
    if (isRunning) this.timer = setTimeout(() => this.signal.aborted || this.#load(), AGAIN);
  }

  /** Whether nothing but the row is stored. */
  get isBare() {
    const { request, upstream = {}, events = [] } = this.analysis;
    return !request && !upstream.raw && !events.length;
  }

  async #load(full) {
    try {
      this.take(await askLong(withQuery(this.path, { full }), { signal: this.signal }));
    } catch (error) {
      if (!this.signal.aborted) say(error.message);
    }
  }

  #show(analysis) {
    const { request, upstream_request: passed, response, usage, notes } = analysis;
    const all = [
      ["Request", request],
      ["Forwarded", passed],
      ["Response", response],
      ["Usage", usage],
      ["Notes", notes],
    ];
    this.panes.show(
      analysis,
      all.filter(([, value]) => value && (typeof value !== "object" || Object.keys(value).length)),
    );
  }

  #showHead() {
    const { row, replayable, notes } = this.analysis;
    const found = (notes?.formats ?? []).filter((name) => name !== row.format).join(", ");
    const able = (words, act, why) => button(words, act, { disabled: Boolean(why), title: why || null });
    const bare = this.isBare && (row.state === "started" ? RUNNING.text : BARE);
    const facts = [
      ["client", `${row.client_api || "–"} · ${row.stream ? "streamed" : "not streamed"}`],
      ["upstream", `${row.upstream || "–"} · ${row.upstream_api || "–"}`],
      ["format", `${row.format || "–"}${found && ` → ${found}`}`],
      ["tools", row.mode || "–"],
      ["calls", count(row.calls)],
      ["first token", seconds(row.first_token)],
      ["duration", seconds(row.duration)],
      [
        "tokens",
        !row.output_tokens && !row.input_tokens
          ? "–"
          : `${count(row.input_tokens)} in, ${count(row.output_tokens)} out`,
      ],
    ];
    fill(
      this.head,
      h(
        "div.title",
        h("a", { href: "#/streams", class: "back", "aria-label": "Back to the list" }, "←"),
        h("h1", { text: row.model || row.id }),
        h("span", { class: `ended ${mood(row)}` }, h("span.pill", { text: ending(row) })),
        h("time.quiet", moment(row.created)),
        h(
          "span.actions",
          able("Replay with …", () => this.replay(), replayable),
          able("Copy as curl", () => this.#curl(), bare),
          able("Export as test vector", () => this.#vector(), bare),
        ),
      ),
      h(
        "dl.facts",
        facts.map(([name, value]) => h("div", h("dt", name), h("dd", { text: value }))),
      ),
      row.error_message && h("p.wrong", { text: row.error_message }),
    );
  }

  // --- replay ---

  /** Ask the user for the options of a replay. */
  async replay() {
    if (this.analysis.replayable) return say(this.analysis.replayable);
    const { formats = [], reasoning = [] } = await about();
    const isOn = [
      ["true", "on"],
      ["false", "off"],
    ];
    const options = {
      Format: formats.map((one) => one.name),
      Arguments: ARGUMENTS,
      Reasoning: reasoning,
      Repair: isOn,
      Trim: isOn,
    };
    const chosen = Object.entries(options).map(([label, all]) => {
      const before = String(this.asked?.[label.toLowerCase()] ?? "");
      return [label, select([["", "unchanged"], ...all], before, null, label)];
    });
    const form = h(
      "form.stack",
      h("p.quiet", "The stored bytes are parsed again. No request is sent to the upstream."),
      chosen.map(([label, control]) => field(label, control)),
      h("div.actions", h("button.primary", "Replay")),
    );
    const box = dialog("Replay with", form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      box.close();
      const pairs = chosen
        .map(([label, { value }]) => [label.toLowerCase(), { true: true, false: false }[value] ?? value])
        .filter(([, value]) => value !== "");
      this.#replayed(Object.fromEntries(pairs));
    });
    return undefined;
  }

  async #replayed(body, full) {
    this.asked = body;
    clearTimeout(this.timer);
    try {
      const { analysis, differences = [] } = await askLong(withQuery(`${this.path}/replay`, { full }), {
        method: "POST",
        body,
        signal: this.signal,
      });
      const words =
        Object.entries(body)
          .map(([name, value]) => `${name} ${value}`)
          .join(", ") || "the same options";
      this.banner.hidden = false;
      fill(
        this.banner,
        h(
          "header",
          h("h2", { text: `Replayed with ${words}` }),
          h("span", differences.length ? many(differences.length, "difference") : "no differences"),
          button("Back to the original", () => this.#original()),
        ),
        differences.length ? changes(differences) : null,
      );
      this.#show({
        ...this.analysis,
        ...analysis,
        row: analysis.row ?? this.analysis.row,
        truncated: analysis.truncated,
      });
      this.banner.scrollIntoView({ block: "nearest" });
    } catch (error) {
      if (!this.signal.aborted) say(error.message);
    }
  }

  #original() {
    this.banner.hidden = true;
    this.#show(this.analysis);
  }

  // --- export ---

  async #curl() {
    try {
      const path = withQuery(`${this.path}/curl`, { base: location.origin });
      await copy(await askText(path, { signal: this.signal }), "curl command");
    } catch (error) {
      say(error.message);
    }
  }

  async #vector() {
    try {
      const vector = await askJSON(`${this.path}/vector`, { signal: this.signal });
      const text = `${JSON.stringify(vector, null, 2)}\n`;
      const area = h("textarea", {
        rows: 18,
        readonly: true,
        class: "code",
        "aria-label": "Test vector",
        value: text.slice(0, 200_000),
      });
      const name = `vector-${this.analysis.row.id}.json`.replaceAll(/[^\w.-]/gu, "_");
      dialog(
        "Test vector",
        h(
          "p.quiet",
          "The text, the tools and the result as JSON, with API keys removed. Attach it to a bug report.",
        ),
        area,
        h(
          "div.actions",
          button("Copy", () => copy(text, "test vector")),
          button("Download", () => download(name, text), { class: "primary" }),
        ),
      );
    } catch (error) {
      say(error.message);
    }
  }
}

/** Show the differences by line, old and new. */
function changes(differences) {
  const look = { "+": "now", "-": "then" };
  const lines = (words) =>
    String(words ?? "")
      .slice(0, MAX_CHANGE)
      .split("\n")
      .map((line) => h("div", { class: look[line[0]] ?? "", text: line || " " }));
  return group(
    "Differences",
    "changes",
    differences
      .slice(0, MAX_CHANGES)
      .map(({ path, words }) => h("section", h("h3", { text: String(path) }), h("div.prose", lines(words)))),
  );
}
