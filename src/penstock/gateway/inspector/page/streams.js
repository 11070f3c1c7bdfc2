/**
 * Streams: the live list.
 *
 * Rows are loaded in pages, newest first, as the list is scrolled. New streams appear at the top and
 * are updated while they run. The list is kept when a stream is opened.
 */

import { aboutLog, ask, askJSON, frames, withQuery } from "./api.js";
import { fill, h } from "./dom.js";
import { addressOf, FilterBar, formatsOf, readFilters } from "./filters.js";
import { Rows } from "./rows.js";
import { countWhile, eachFrame, later, wait } from "./slices.js";
import { drawRow, heading, NARROW, nothingFound, nothingYet, rowHeight } from "./stream_row.js";
import { many } from "./words.js";

const PAGE = 200;
const RETRY = 2000;
/** After how many milliseconds without an update a running stream is requested, and how many are. */
const SILENCE = 10_000;
const MAX_ASKED = 20;

/** The state of the list when the user left it. */
const kept = { filters: {}, rows: [], next: "", current: -1, scroll: 0 };

/** Show the list. */
export async function streams(main, rest, signal) {
  const asked = location.hash.includes("?") ? readFilters(rest) : null;
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
    this.bar = new FilterBar(this.filters, (filters) => this.#filter(filters));
    this.heads = h("div");
    this.view = new Rows({
      label: "Streams, newest first",
      height: rowHeight(),
      role: "list",
      draw: (at) => drawRow(this.rows[at]),
      move: (at) => (kept.current = at),
      pick: (at) => (location.hash = `#/streams/${encodeURIComponent(this.rows[at].id)}`),
      near: () => this.#more(),
    });
    this.changed = new Set();
    this.flush = eachFrame(() => this.#flush());
    this.live = h("span.live", { title: "New streams appear while they run" }, "live");
    this.note = h("span.quiet", { role: "status" });
    this.bodies = h("span.quiet", { hidden: true }, "bodies are not stored (store.bodies = false)");
    this.empty = h("div.empty", h("p.quiet", "Loading …"));
    this.view.element.hidden = this.heads.hidden = !this.rows.length;
    this.empty.hidden = this.rows.length > 0;
    const turn = () => {
      this.view.height = rowHeight();
      this.view.resize(this.rows.length);
    };
    NARROW.addEventListener("change", turn, { signal });
    fill(
      main,
      h("h1.hidden", "Streams"),
      this.bar.element,
      this.heads,
      this.view.element,
      this.empty,
      h("p.foot", this.note, this.bodies, this.live),
    );
    this.view.element.addEventListener("scroll", () => (kept.scroll = this.view.element.scrollTop), {
      passive: true,
    });
    this.#address();
    this.keys = {
      j: () => this.#step(1),
      k: () => this.#step(-1),
      "/": () => this.bar.search.focus(),
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
    this.known = known;
    this.bar.learn(this.rows, { client_api: known.apis, model: known.models });
    await this.load(!this.rows.length);
    this.#follow();
    const timer = setInterval(() => this.#settle(), SILENCE / 2);
    this.signal.addEventListener("abort", () => clearInterval(timer));
  }

  /** Load the newest page: `anew` replaces the rows, else new ones are added at the top. */
  async load(anew = true) {
    const mine = (this.loads = (this.loads ?? 0) + 1);
    this.isOld ||= anew; // also if this request is overtaken by one that only adds rows
    const page = await askJSON(this.#path(), { signal: this.signal });
    if (mine !== this.loads || this.signal.aborted) return;
    this.note.textContent = "";
    anew = this.isOld;
    this.isOld = false;
    const isGap = page.has_more && page.data.every((row) => !this.rows.some((one) => one.id === row.id));
    if (anew || isGap || this.filters.sort) {
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
    fill(this.empty, isFiltered ? nothingFound(() => this.bar.clear()) : nothingYet(this.known));
    this.note.textContent = this.rows.length
      ? `${many(this.rows.length, "stream")}${this.next ? " loaded, scroll for more" : ""}`
      : "";
    this.heads.hidden = !this.rows.length;
    this.bar.learn(this.rows.slice(0, PAGE));
  }

  #filter(filters) {
    this.filters = kept.filters = filters;
    this.#address();
    this.load().catch((error) => (this.note.textContent = error.message));
  }

  /** Put the filters into the address, so that it can be shared and reloaded. */
  #address() {
    history.replaceState(null, "", addressOf(this.filters));
    const sort = (name) => this.bar.set("sort", name);
    fill(this.heads, heading(this.filters.sort ?? "", sort));
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
    } else if (patch.created && (this.filters.search || this.filters.sort)) {
      this.lookAgain ??= later(1000, () => this.load(false).catch(() => {}));
      this.lookAgain();
    } else if (patch.created && this.#fits(patch)) {
      this.#put(patch);
      this.isLonger = true;
      this.flush();
    }
  }

  #place(id) {
    if (this.filters.sort) return this.rows.findIndex((row) => row.id === id);
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
    if (box.scrollTop > at * this.view.height) box.scrollTop += this.view.height;
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
    const { model, client_api, format, state, finish, error, repairs, unread, conversation } = this.filters;
    const same = [
      [model, row.model],
      [client_api, row.client_api],
      [state, row.state],
      [finish, row.finish],
      [error, row.error_kind],
      [conversation, row.conversation],
    ];
    const isSame = same.every(([wanted, there]) => !wanted || wanted === there);
    const isRead = !format || row.format === format || formatsOf(row).includes(format);
    return isSame && isRead && (!repairs || row.repairs?.length) && (!unread || row.unread);
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
}
