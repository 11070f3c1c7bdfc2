/**
 * One stream: the model's output, the parsed events, and what the client received.
 */

import { about, aboutLog, ask, askJSON, askLong, askSoon, askText, frames, withQuery } from "./api.js";
import { button, coded, copy, dialog, download, field, fill, group, h, say, select } from "./dom.js";
import { formatsOf } from "./filters.js";
import { Panes } from "./panes.js";
import { pack } from "./share.js";
import { wait } from "./slices.js";
import { ARGUMENTS, callWords, count, ending, many, MAX_UNREAD, moment, mood, seconds, unreadCount } from "./words.js";

/** After how many milliseconds a running stream is requested again. */
const AGAIN = 1000;
const SOON = 250;
const RUNNING = {
  at: null,
  kind: "running",
  text: "This stream is still running. Its content is shown as it arrives, or when it has ended if another process serves it.",
};
const BARE = "The bodies of this stream were not stored (store.bodies = false), so only its statistics are shown.";
/** How tools reach the model. */
const MODES = { native: "natively", prompt: "in the prompt" };
/** How many names are listed of texts for the same reason. */
const MAX_NAMES = 8;
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
    this.why = h("section.why", { "aria-label": "Why not a call", hidden: true });
    this.banner = h("div.banner", { hidden: true });
    const full = () => (this.banner.hidden ? this.#load("1") : this.#replayed(this.asked, "1"));
    this.panes = new Panes({ full });
  }

  /** Show an analysis; while the stream runs, show what arrives. */
  take(analysis) {
    this.analysis = analysis;
    fill(this.main, this.head, this.why, this.banner, this.panes.element);
    this.#showHead();
    this.#explain(analysis.unread ?? []);
    const isRunning = analysis.row.state === "started";
    const said = isRunning ? RUNNING : this.isBare ? { at: null, kind: "bare", text: BARE } : [];
    analysis.remarks = [analysis.remarks ?? [], said].flat();
    if (isRunning) this.#follow();
    else this.panes.show(analysis);
  }

  /** Show a running stream until it has ended, then load all of it. */
  async #follow() {
    this.panes.begin(this.analysis);
    const { signal } = this;
    while (!signal.aborted) {
      let isThere = false;
      try {
        const live = await ask(`${this.path}/live`, { signal, accept: "text/event-stream" });
        for await (const { event, data } of frames(live)) {
          if (!data) continue;
          if (!isThere) this.panes.begin(this.analysis); // it is sent from its beginning
          isThere = true;
          if (event === "more") this.panes.grow(JSON.parse(data));
        }
        await wait(isThere ? SOON : AGAIN);
        const found = await askSoon(this.path, { signal });
        if (found.row.state === "started") continue;
        this.take(found);
        return;
      } catch (error) {
        if (signal.aborted) return;
        say(error.message);
        await wait(AGAIN);
      }
    }
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

  #showHead() {
    const { row, replayable, conversation } = this.analysis;
    const found = formatsOf(row).filter((name) => name !== row.format).join(", ");
    const offered = conversation?.tools?.length;
    const able = (words, act, why) => button(words, act, { disabled: Boolean(why), title: why || null });
    const bare = this.isBare && (row.state === "started" ? RUNNING.text : BARE);
    const facts = [
      ["client", `${row.client_api || "–"} · ${row.stream ? "streamed" : "not streamed"}`],
      ["upstream", `${row.upstream || "–"} · ${row.upstream_api || "–"}`],
      ["format", `${row.format || "–"}${found && ` → ${found}`}`],
      ["tools offered", offered === undefined ? row.mode || "–" : `${count(offered)}${offered ? ` · ${MODES[row.mode] ?? row.mode}` : ""}`],
      ["calls", [callWords(row), unreadCount(row)].filter(Boolean).join(" · ") || (row.state === "done" ? "none" : "–")],
      ["first token", seconds(row.first_token)],
      ["duration", row.duration ? seconds(row.duration) : "–"],
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
        row.conversation && row.messages > 1
          ? h("a", { href: `#/conversations/${encodeURIComponent(row.conversation)}` }, "Show the conversation")
          : null,
        h(
          "span.actions",
          able("Replay with …", () => this.replay(), replayable),
          able("Open in playground", () => this.#play(), bare),
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

  // --- text that is not a call ---

  /** Say why text that looks like a call is not one, what to change, and offer to try it. */
  #explain(unread) {
    this.why.hidden = !unread.length;
    const one = ([first, ...rest]) => {
      const { description, advice, replay } = first;
      const places = [first, ...rest].map(({ at }) => at).filter(Number.isInteger);
      let next = 0;
      const show = () => {
        this.panes.reveal(places[next]);
        next = (next + 1) % places.length;
      };
      return h(
        "li",
        h("p", h("b", coded(sentence(description))), " ", coded(advice), coded(alike(rest))),
        h(
          "p.actions",
          places.length > 0 && button(places.length > 1 ? "Show next" : "Show it", show),
          replay &&
            !this.analysis.replayable &&
            button(`Replay with ${optionWords(replay)}`, () => this.#replayed(replay), { class: "primary" }),
        ),
      );
    };
    const least = unread.length >= MAX_UNREAD ? "at least " : "";
    fill(
      this.why,
      h("h2", unread.length === 1 ? "Why not a call?" : `Why not a call? (${least}${many(unread.length, "text")})`),
      h("ul", grouped(unread).map(one)),
    );
  }

  /** Open the model's text in the playground, with the format and tools of this stream. */
  async #play() {
    const { upstream = {}, conversation = {}, notes, row } = this.analysis;
    const options = notes?.options ?? {};
    const state = {
      text: (upstream.text_pieces ?? []).map(([, piece]) => piece).join(""),
      format: row.format || "auto",
      tools: JSON.stringify(conversation.tools ?? [], null, 2),
      arguments: options.arguments ?? "live",
      reasoning: options.reasoning ?? "",
      repair: options.repair === true,
      trim: options.trim === true,
      chunk: 0,
    };
    location.hash = `#/playground?${await pack(state)}`;
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
    try {
      const { analysis, differences = [] } = await askLong(withQuery(`${this.path}/replay`, { full }), {
        method: "POST",
        body,
        signal: this.signal,
      });
      this.banner.hidden = false;
      fill(
        this.banner,
        h(
          "header",
          h("h2", { text: `Replayed with ${optionWords(body) || "the same options"}` }),
          h("span", differences.length ? many(differences.length, "difference") : "no differences"),
          button("Back to the original", () => this.#original()),
        ),
        differences.length ? changes(differences) : null,
        Object.keys(body).length ? configuration(this.analysis.row, body) : null,
      );
      this.#explain(analysis.unread ?? []);
      this.panes.show({
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
    this.#explain(this.analysis.unread ?? []);
    this.panes.show(this.analysis);
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

/** Group texts that are no calls for the same reason, and that the same options read. */
function grouped(unread) {
  const groups = new Map();
  for (const one of unread) {
    const { reason, format, replay, description } = one;
    const key = JSON.stringify([reason, format, replay, reason === "broken" && description]);
    groups.set(key, [...(groups.get(key) ?? []), one]);
  }
  return [...groups.values()];
}

/** Say that there are `rest` more texts for the same reason, with the names of their tools. */
function alike(rest) {
  if (!rest.length) return "";
  const names = [...new Set(rest.map(({ name }) => name).filter(Boolean))];
  const listed = names.slice(0, MAX_NAMES).map((name) => `\`${name.replaceAll("`", "'")}\``);
  const end = names.length > MAX_NAMES ? ", …" : ".";
  return ` The same holds for ${many(rest.length, "more text")}${listed.length ? `: ${listed.join(", ")}` : ""}${end}`;
}

const sentence = (words) => `${words.charAt(0).toUpperCase()}${words.slice(1)}.`;

/** The options of a replay in words. */
const optionWords = (options) =>
  Object.entries(options)
    .map(([name, value]) => `${name} ${{ true: "on", false: "off" }[value] ?? value}`)
    .join(", ");

/** The lines for `penstock.toml` that make the options of a replay permanent. */
function configuration(row, options) {
  const quoted = (value) => JSON.stringify(value);
  const lines = [
    `[models.${quoted(row.model)}]`,
    row.upstream && `upstream = ${quoted(row.upstream)}`,
    row.upstream_model && row.upstream_model !== row.model && `model = ${quoted(row.upstream_model)}`,
    ...Object.entries(options).map(([name, value]) => `${name} = ${quoted(value)}`),
  ];
  const text = `${lines.filter(Boolean).join("\n")}\n`;
  return h(
    "div.config",
    h("p", "To keep these options, put this into penstock.toml:"),
    h("pre.sample", { text }),
    h("p.actions", button("Copy", () => copy(text, "configuration"))),
  );
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
