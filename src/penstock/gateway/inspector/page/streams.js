/**
 * Streams: the live list.
 *
 * Rows are loaded in pages, newest first, as the list is scrolled. New streams appear at the top and
 * are updated while they run. The list is kept when a stream is opened.
 */

import { aboutLog, ask, askJSON, frames, withQuery } from "./api.js";
import { button, fill, h, offer, select, svg } from "./dom.js";
import { Rows } from "./rows.js";
import { countWhile, eachFrame, later, wait } from "./slices.js";
import { ending, many, moment, mood, PERIODS, seconds } from "./words.js";

const PAGE = 200;
const HEIGHT = 58;
const RETRY = 2000;
/** After how many milliseconds without an update a running stream is requested, and how many are. */
const SILENCE = 10_000;
const MAX_ASKED = 20;
const FINISHES = [["", "any finish"], "stop", "tool_use", "length", "error"];
const ERRORS = [
  ["", "any error"],
  "provider",
  "transport",
  "truncated",
  "malformed",
  "refusal",
  "filter",
  "aborted",
];
const STATES = [["", "any state"], ["started", "running"], "done", "failed", "aborted", "interrupted"];

/** The state of the list when the user left it. */
const kept = { filters: {}, rows: [], next: "", current: -1, scroll: 0 };

/** Show the list. */
export async function streams(main, rest, signal) {
  const asked = location.hash.includes("?") ? Object.fromEntries(new URLSearchParams(rest)) : null;
  if (asked) Object.assign(kept, { filters: asked, rows: [], next: "", current: -1, scroll: 0 });
  const list = new List(main, signal);
  await list.begin();
  return list.keys;
}

class List {
  constructor(main, signal) {
    this.signal = signal;
    this.filters = kept.filters;
    this.rows = kept.rows;
    this.next = kept.next;
    this.isLoading = false;
    this.seen = { model: new Set(), client_api: new Set(), format: new Set() };
    this.view = new Rows({
      label: "Streams, newest first",
      height: HEIGHT,
      role: "list",
      draw: (at) => draw(this.rows[at]),
      move: (at) => (kept.current = at),
      pick: (at) => (location.hash = `#/streams/${encodeURIComponent(this.rows[at].id)}`),
      near: () => this.#more(),
    });
    this.changed = new Set();
    this.flush = eachFrame(() => this.#flush());
    this.live = h("span.live", { title: "New streams appear while they run" }, "live");
    this.note = h("span.quiet", { role: "status" });
    this.bodies = h("span.quiet", { hidden: true }, "bodies are not stored (store.bodies = false)");
    this.empty = h("div.empty", { hidden: true });
    fill(
      main,
      h("h1.hidden", "Streams"),
      this.#bar(),
      heading(),
      this.view.element,
      this.empty,
      h("p.foot", this.note, this.bodies, this.live),
    );
    this.view.element.addEventListener("scroll", () => (kept.scroll = this.view.element.scrollTop), {
      passive: true,
    });
    this.keys = {
      j: () => this.#step(1),
      k: () => this.#step(-1),
      "/": () => this.search.focus(),
      Enter: () => this.view.current >= 0 && this.view.pick(this.view.current),
    };
  }

  async begin() {
    this.view.current = kept.current;
    if (this.rows.length) {
      this.view.resize(this.rows.length);
      requestAnimationFrame(() => (this.view.element.scrollTop = kept.scroll));
    }
    const known = await aboutLog();
    this.bodies.hidden = known.bodies;
    this.#offer(known);
    await this.load(!this.rows.length);
    this.#follow();
    const timer = setInterval(() => this.#settle(), SILENCE / 2);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  /** Load the newest page: `anew` replaces the rows, else new ones are added at the top. */
  async load(anew = true) {
    const mine = (this.loads = (this.loads ?? 0) + 1);
    const page = await askJSON(this.#path(), { signal: this.signal });
    if (mine !== this.loads || this.signal.aborted) return;
    const isGap = page.has_more && page.data.every((row) => !this.rows.some((one) => one.id === row.id));
    if (anew || isGap) {
      Object.assign(this, { rows: page.data, next: page.next ?? "" });
      if (anew) Object.assign(this.view, { current: -1 });
      if (anew) this.view.element.scrollTop = 0;
    } else {
      for (const row of page.data) this.#put(row);
    }
    this.#changed();
  }

  #path(before) {
    const { period, search, ...rest } = this.filters;
    const since = period ? Date.now() / 1000 - Number(period) : "";
    return withQuery("/v1/requests", { limit: PAGE, before, search, since, ...rest });
  }

  async #more() {
    if (!this.next || this.isLoading) return;
    this.isLoading = true;
    const [mine, before] = [this.loads, this.next];
    try {
      const page = await askJSON(this.#path(before), { signal: this.signal });
      if (mine !== this.loads || this.signal.aborted) return;
      this.rows.push(...page.data);
      this.next = page.next ?? "";
      this.#changed(false);
    } catch (error) {
      if (!this.signal.aborted) this.note.textContent = error.message;
    } finally {
      this.isLoading = false;
    }
  }

  #changed(anew = true) {
    Object.assign(kept, { rows: this.rows, next: this.next });
    this.view.resize(this.rows.length, anew);
    const isFiltered = Object.values(this.filters).some(Boolean);
    this.view.element.hidden = !this.rows.length;
    this.empty.hidden = this.rows.length > 0;
    fill(this.empty, isFiltered ? nothingFound() : nothingYet());
    this.note.textContent = this.rows.length
      ? `${many(this.rows.length, "stream")}${this.next ? " loaded, scroll for more" : ""}`
      : "";
    this.#learn();
  }

  // --- live updates ---

  async #follow() {
    while (!this.signal.aborted) {
      // A hidden page would hold one of the six connections that a browser has for a host.
      const turned = new AbortController();
      const turn = new Promise((resolve) => turned.signal.addEventListener("abort", resolve));
      document.addEventListener("visibilitychange", () => turned.abort(), { once: true });
      if (document.hidden) {
        await turn;
        continue;
      }
      try {
        const after = this.rows[0]?.id ?? "";
        const live = await ask(withQuery("/inspector/api/live", { after }), {
          signal: AbortSignal.any([this.signal, turned.signal]),
          accept: "text/event-stream",
        });
        this.live.classList.add("on");
        this.load(false).catch(() => {}); // what ended in between
        for await (const { event, data } of frames(live)) {
          if (event === "gap") this.load(false).catch(() => {});
          else if (data) this.#hear(JSON.parse(data));
        }
      } catch (error) {
        if (this.signal.aborted) return;
        if (!turned.signal.aborted) console.info("live:", error.message);
      }
      this.live.classList.remove("on");
      await Promise.race([turn, wait(RETRY)]);
    }
  }

  /** Request running streams that had no update for a while: their end may have been missed. */
  async #settle() {
    if (document.hidden) return;
    const lately = performance.now() - SILENCE;
    const open = this.rows.filter((row) => row.state === "started" && !(row.heard > lately));
    for (const { id } of open.slice(0, MAX_ASKED)) {
      // `before` excludes its value, so this is the id of the row itself and something after it.
      const path = withQuery("/v1/requests", { limit: 1, before: `${id}!` });
      const page = await askJSON(path, { signal: this.signal }).catch(() => null);
      this.#hear(page?.data[0]?.id === id ? page.data[0] : { id });
    }
  }

  #hear(patch) {
    if (!patch.id) return;
    const at = this.#place(patch.id);
    if (this.rows[at]?.id === patch.id) {
      this.#change(at, patch);
      this.changed.add(patch.id);
      this.flush();
    } else if (patch.created && this.filters.search) {
      this.lookAgain ??= later(1000, () => this.load(false).catch(() => {}));
      this.lookAgain();
    } else if (patch.created && this.#fits(patch)) {
      this.#put(patch);
      this.isLonger = true;
      this.flush();
    }
  }

  #place(id) {
    return countWhile(this.rows.length, (at) => this.rows[at].id > id);
  }

  #put(row) {
    const at = this.#place(row.id);
    if (this.rows[at]?.id === row.id) {
      this.#change(at, row);
      return;
    }
    if (at === this.rows.length && this.next) return;
    this.rows.splice(at, 0, row);
    if (this.view.current >= at) this.view.current += 1;
    const box = this.view.element;
    if (box.scrollTop > at * HEIGHT) box.scrollTop += HEIGHT;
  }

  /** Update a row. One that has ended stays ended, and is removed if the filter no longer fits. */
  #change(at, patch) {
    const row = this.rows[at];
    if (row.state !== "started" && patch.state === "started") return;
    Object.assign(row, patch, { heard: performance.now() });
    if (!this.filters.state || row.state === this.filters.state) return;
    this.rows.splice(at, 1);
    if (this.view.current > at) this.view.current -= 1;
    this.isLonger = true;
  }

  #fits(row) {
    const { model, client_api, format, state, finish, error, repairs } = this.filters;
    const same = [
      [model, row.model],
      [client_api, row.client_api],
      [format, row.format],
      [state, row.state],
      [finish, row.finish],
      [error, row.error_kind],
    ];
    return same.every(([wanted, there]) => !wanted || wanted === there) && (!repairs || row.repairs?.length);
  }

  #flush() {
    if (this.isLonger) this.#changed();
    else for (const id of this.changed) this.view.redraw(this.#place(id));
    this.isLonger = false;
    this.changed.clear();
  }

  #step(by) {
    this.view.go(this.view.current + by);
    this.view.focus();
  }

  // --- filters ---

  #bar() {
    const set = (name) => (value) => {
      this.filters = kept.filters = { ...this.filters, [name]: value };
      this.load().catch((error) => (this.note.textContent = error.message));
    };
    const choice = (name, options, label) => select(options, this.filters[name] ?? "", set(name), label);
    const type = later(250, (value) => set("search")(value));
    this.search = h("input", {
      type: "search",
      placeholder: "Search responses and errors",
      "aria-label": "Search responses and errors",
      value: this.filters.search ?? "",
      on: { input: () => type(this.search.value) },
    });
    this.choices = {
      client_api: choice("client_api", [["", "any API"]], "Client API"),
      model: choice("model", [["", "any model"]], "Model"),
      format: choice("format", [["", "any format"]], "Format"),
    };
    const repairs = h("input", {
      type: "checkbox",
      on: { change: () => set("repairs")(repairs.checked ? "1" : "") },
    });
    repairs.checked = this.filters.repairs === "1";
    const more = button("Filters", () => more.setAttribute("aria-expanded", bar.classList.toggle("open")), {
      class: "more",
      "aria-expanded": "false",
    });
    const bar = h(
      "form.bar",
      { role: "search", on: { submit: (event) => event.preventDefault() } },
      this.search,
      more,
      h(
        "div.filters",
        Object.values(this.choices),
        choice("state", STATES, "State"),
        choice("finish", FINISHES, "Finish"),
        choice("error", ERRORS, "Error"),
        choice("period", [["", "any time"], ...PERIODS], "Time"),
        h("label.check", repairs, "repaired"),
      ),
    );
    return bar;
  }

  #offer({ apis = [], models = [], formats = [] }) {
    this.known = { client_api: apis, model: models, format: formats.map((one) => one.name) };
    this.#learn();
  }

  #learn() {
    for (const [name, choice] of Object.entries(this.choices)) {
      const seen = this.seen[name];
      const before = seen.size;
      for (const row of this.rows.slice(0, PAGE)) if (row[name]) seen.add(row[name]);
      for (const one of this.known?.[name] ?? []) if (name !== "format") seen.add(one);
      if (this.filters[name]) seen.add(this.filters[name]);
      if (seen.size === before && choice.options.length > 1) continue;
      const words = { client_api: "any API", model: "any model", format: "any format" }[name];
      offer(choice, [["", words], ...[...seen].sort()], this.filters[name] ?? "");
    }
  }
}

function heading() {
  const names = ["Time", "Model", "Format", "Calls", "Finish", "First token", "Duration"];
  return h(
    "div.heads",
    { "aria-hidden": "true" },
    names.map((name) => h("span", name)),
  );
}

/** Draw one row. */
function draw(row) {
  const repairs = row.repairs?.length ?? 0;
  const cells = [
    h("span.when", moment(row.created)),
    h(
      "span.asked",
      h("b", { text: row.model || "–" }),
      h("small", {
        text: `${row.client_api || "–"} → ${row.upstream || "no upstream"}${row.upstream_model && row.upstream_model !== row.model ? ` · ${row.upstream_model}` : ""}`,
      }),
    ),
    h(
      "span.read",
      h("span", { text: row.format || "–" }),
      h("small", {
        text: row.mode === "prompt" ? "tools in the prompt" : row.stream ? "streamed" : "not streamed",
      }),
    ),
    h(
      "span.calls",
      row.calls ? many(row.calls, "call") : h("span.quiet", "no calls"),
      repairs > 0 && h("small.mended", { title: row.repairs.join("\n") }, `✎ ${many(repairs, "repair")}`),
    ),
    h(
      "span",
      { class: `ended ${mood(row)}` },
      h("span.pill", { text: ending(row) }),
      h("small", { text: row.error_message?.slice(0, 120) || (row.chunks ? many(row.chunks, "chunk") : "") }),
    ),
    h("span.figure", seconds(row.first_token)),
    h("span.figure", row.state === "started" && !row.duration ? "…" : seconds(row.duration), spark(row)),
  ];
  const link = h("a", { href: `#/streams/${encodeURIComponent(row.id)}`, tabindex: -1 }, cells);
  return h("div", { class: `stream ${mood(row)}` }, link);
}

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

const nothingFound = () => [h("h2", "No matches"), h("p", "No stream matches these filters.")];
const nothingYet = () => [
  h("h2", "No streams yet"),
  h(
    "p",
    "Requests to this gateway appear here while they run. Send one, or try the ",
    h("a", { href: "#/chat" }, "chat"),
    ".",
  ),
  h(
    "pre.sample",
    `curl ${location.origin}/v1/chat/completions \\\n  -H 'content-type: application/json' \\\n  -d '{"model": "demo", "stream": true, "messages": [{"role": "user", "content": "Hello!"}]}'`,
  ),
];
