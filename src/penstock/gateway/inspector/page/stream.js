/**
 * One stream: what the model printed, what was read in it, and what the client got.
 */

import { about, askJSON, askLong, askText, withQuery } from "./api.js";
import { copy, dialog, download, field, fill, h, say, select } from "./dom.js";
import { Panes } from "./panes.js";
import { count, ending, many, moment, mood, seconds } from "./words.js";

const AGAIN = 1000;
const RUNNING = {
  at: null,
  kind: "running",
  text: "It is still running: what it holds is shown once it has ended.",
};
const MAX_CHANGES = 100;
/** How much of one difference is shown, in characters. */
const MAX_CHANGE = 20_000;

/** Show the stream with the id that stands in the address. */
export async function stream(main, rest, signal) {
  const id = decodeURIComponent(rest);
  const path = `/inspector/api/streams/${encodeURIComponent(id)}`;
  fill(main, h("p", { class: "empty" }, "Reading the stream …"));
  const view = new Stream(main, path, signal);
  view.take(await askLong(path, { signal }));
  document.title = `${view.analysis.row.model} · Penstock inspector`;
  return { ...view.panes.keys, Escape: () => (location.hash = "#/streams"), r: () => view.replay() };
}

class Stream {
  constructor(main, path, signal) {
    Object.assign(this, { main, path, signal });
    this.head = h("header", { class: "head" });
    this.banner = h("div", { class: "banner", hidden: true });
    this.panes = new Panes({ full: () => this.#load("1") });
    fill(main, this.head, this.banner, this.panes.element);
  }

  /** Show an analysis; while the stream runs it is asked for again. */
  take(analysis) {
    this.analysis = analysis;
    fill(this.main, this.head, this.banner, this.panes.element);
    this.#showHead();
    const isRunning = analysis.row.state === "started";
    this.#show(isRunning ? { ...analysis, remarks: [...(analysis.remarks ?? []), RUNNING] } : analysis);
    if (isRunning) this.timer = setTimeout(() => this.signal.aborted || this.#load(), AGAIN);
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
      ["Passed on", passed],
      ["Response", response],
      ["Usage", usage],
      ["Notes", notes],
    ];
    this.panes.show(
      analysis,
      all.filter(
        ([, value]) =>
          value !== null &&
          value !== undefined &&
          value !== "" &&
          (typeof value !== "object" || Object.keys(value).length),
      ),
    );
  }

  #showHead() {
    const { row, replayable, notes } = this.analysis;
    const found = (notes?.formats ?? []).filter((name) => name !== row.format).join(", ");
    const button = (words, act, why) =>
      h("button", { type: "button", disabled: Boolean(why), title: why || null, on: { click: act } }, words);
    const facts = [
      ["asked", `${row.client_api || "–"} · ${row.stream ? "stream" : "whole"}`],
      ["upstream", `${row.upstream || "–"} · ${row.upstream_api || "–"}`],
      ["read by", `${row.format || "–"}${found && ` → ${found}`}`],
      ["tools", row.mode || "–"],
      ["calls", count(row.calls)],
      ["first token", seconds(row.first_token)],
      ["took", seconds(row.duration)],
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
        "div",
        { class: "title" },
        h("a", { href: "#/streams", class: "back", "aria-label": "Back to the list" }, "←"),
        h("h1", { text: row.model || row.id }),
        h("span", { class: `ended ${mood(row)}` }, h("span", { class: "pill", text: ending(row) })),
        h("time", { class: "quiet" }, moment(row.created)),
        h(
          "span",
          { class: "actions" },
          button("Replay with …", () => this.replay(), replayable),
          button("Copy as curl", () => this.#curl()),
          button("Export as test", () => this.#vector(), ""),
        ),
      ),
      h(
        "dl",
        { class: "facts" },
        facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { text: value }))),
      ),
      row.error_message && h("p", { class: "wrong", text: row.error_message }),
    );
  }

  // --- replaying ---

  /** Ask how the stream is to be read again. */
  async replay() {
    if (this.analysis.replayable) return say(this.analysis.replayable);
    const { formats = [], reasoning = [] } = await about();
    const same = ["", "as it was"];
    const chosen = {
      format: select([same, ...formats.map((one) => one.name)], this.asked?.format ?? "", null, "Format"),
      arguments: select(
        [same, ["live", "live: as they come"], ["whole", "whole: once complete"]],
        this.asked?.arguments ?? "",
        null,
        "Arguments",
      ),
      reasoning: select([same, ...reasoning], this.asked?.reasoning ?? "", null, "Reasoning"),
      repair: select([same, ["true", "on"], ["false", "off"]], "", null, "Repair"),
    };
    const form = h(
      "form",
      { class: "stack" },
      h("p", { class: "quiet" }, "The stored bytes are read again, now; nobody is asked."),
      field("Format", chosen.format),
      field("Arguments", chosen.arguments),
      field("Reasoning", chosen.reasoning),
      field("Repair", chosen.repair),
      h("div", { class: "actions" }, h("button", { class: "primary" }, "Replay")),
    );
    const box = dialog("Replay with", form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      box.close();
      const pairs = Object.entries(chosen)
        .map(([name, one]) => [name, one.value])
        .filter(([, value]) => value !== "");
      this.#replayed(
        Object.fromEntries(
          pairs.map(([name, value]) => [name, name === "repair" ? value === "true" : value]),
        ),
      );
    });
    return undefined;
  }

  async #replayed(body) {
    this.asked = body;
    clearTimeout(this.timer);
    try {
      const { analysis, differences = [] } = await askLong(`${this.path}/replay`, {
        method: "POST",
        body,
        signal: this.signal,
      });
      const words =
        Object.entries(body)
          .map(([name, value]) => `${name} ${value}`)
          .join(", ") || "the same settings";
      this.banner.hidden = false;
      fill(
        this.banner,
        h(
          "header",
          {},
          h("h2", { text: `Replayed with ${words}` }),
          h("span", {}, differences.length ? many(differences.length, "difference") : "no difference"),
          h("button", { type: "button", on: { click: () => this.#original() } }, "Back to what was"),
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

  // --- taking it away ---

  async #curl() {
    try {
      const path = withQuery(`${this.path}/curl`, { base: location.origin });
      await copy(await askText(path, { signal: this.signal }), "curl line");
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
        "A test of this stream",
        h(
          "p",
          { class: "quiet" },
          "The text, the tools, and what was read, as JSON; keys are taken out. Attach it to a bug report.",
        ),
        area,
        h(
          "div",
          { class: "actions" },
          h("button", { type: "button", on: { click: () => copy(text, "test vector") } }, "Copy"),
          h(
            "button",
            { type: "button", class: "primary", on: { click: () => download(name, text) } },
            "Download",
          ),
        ),
      );
    } catch (error) {
      say(error.message);
    }
  }
}

/** Show what is read otherwise now: line by line, what was and what is. */
function changes(differences) {
  const look = { "+": "now", "-": "then" };
  const lines = (words) =>
    String(words ?? "")
      .slice(0, MAX_CHANGE)
      .split("\n")
      .map((line) => h("div", { class: look[line[0]] ?? "", text: line || " " }));
  return h(
    "div",
    { class: "scroll changes", tabindex: 0, role: "group", "aria-label": "Differences" },
    differences
      .slice(0, MAX_CHANGES)
      .map(({ path, words }) =>
        h("section", {}, h("h3", { text: String(path) }), h("div", { class: "prose" }, lines(words))),
      ),
  );
}
