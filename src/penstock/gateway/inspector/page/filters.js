/**
 * The filters of a list: controls, chips for those that are set, and the address that holds them.
 */

import { button, fill, h, offer, select } from "./dom.js";
import { later } from "./slices.js";
import { FAILURES, PERIODS } from "./words.js";

const STATES = [["", "any state"], ["started", "running"], "done", "failed", ["aborted", "client left"], "interrupted"];
const FINISHES = [
  ["", "any finish"],
  ["stop", "answered"],
  ["tool_use", "calls tools"],
  ["length", "token limit"],
  ["error", "error"],
];
const ERRORS = [["", "any error"], ...Object.entries(FAILURES)];
const SORTED = {
  duration: "longest first",
  first_token: "slowest first token first",
  output_tokens: "most tokens first",
  calls: "most calls first",
};
const NAMES = {
  search: "search",
  model: "model",
  client_api: "API",
  format: "format",
  state: "state",
  finish: "finish",
  error: "error",
  period: "time",
  repairs: "repaired calls",
  unread: "unread calls",
  conversation: "conversation",
  session: "session",
  sort: "sorted",
};

/** The names of the filters that an address may set. */
const KNOWN = Object.keys(NAMES);

/** Return the filters in the query of an address. */
export function readFilters(query) {
  return Object.fromEntries([...new URLSearchParams(query)].filter(([name, value]) => KNOWN.includes(name) && value));
}

/** Return the address of the list with `filters`. */
export function addressOf(filters) {
  const query = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
  return query ? `#/streams?${query}` : "#/streams";
}

export class FilterBar {
  /** `change(filters)` is called when the user changes them. */
  constructor(filters, change) {
    Object.assign(this, { filters, change });
    this.seen = { model: new Set(), client_api: new Set(), format: new Set() };
    this.chips = h("p.chips", { "aria-label": "Active filters", role: "group", hidden: true });
    this.controls = {};
    this.element = h("div.filter-bar", this.#bar(), this.chips);
    this.#chip();
  }

  /** Set one filter; an empty value removes it. */
  set(name, value) {
    this.filters = { ...this.filters, [name]: value };
    if (!value) delete this.filters[name];
    this.#show(name);
    this.#chip();
    this.change(this.filters);
  }

  clear() {
    const before = Object.keys(this.filters);
    this.filters = {};
    before.forEach((name) => this.#show(name));
    this.#chip();
    this.change(this.filters);
  }

  #show(name) {
    const control = this.controls[name];
    if (!control) return;
    if (control.type === "checkbox") control.checked = this.filters[name] === "1";
    else if (control !== document.activeElement) control.value = this.filters[name] ?? "";
  }

  #bar() {
    const choice = (name, options, label) => {
      const control = select(options, this.filters[name] ?? "", (value) => this.set(name, value), label);
      this.controls[name] = control;
      return control;
    };
    const check = (name, words) => {
      const control = h("input", { type: "checkbox", on: { change: () => this.set(name, control.checked ? "1" : "") } });
      control.checked = this.filters[name] === "1";
      this.controls[name] = control;
      return h("label.check", control, words);
    };
    const type = later(250, (value) => this.set("search", value));
    this.search = h("input", {
      type: "search",
      placeholder: "Search prompts, responses, tools, arguments, models, errors",
      "aria-label": "Search",
      title: "All words must occur; the beginning of a word is enough. Words in quotes occur in this order.",
      value: this.filters.search ?? "",
      on: { input: () => type(this.search.value) },
    });
    this.controls.search = this.search;
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
        choice("model", [["", "any model"]], "Model"),
        choice("format", [["", "any format"]], "Format"),
        choice("client_api", [["", "any API"]], "Client API"),
        choice("state", STATES, "State"),
        choice("finish", FINISHES, "Finish"),
        choice("error", ERRORS, "Error"),
        choice("period", [["", "any time"], ...PERIODS], "Time"),
        check("unread", "unread calls"),
        check("repairs", "repaired"),
      ),
    );
    return bar;
  }

  /** Show a chip for each filter that is set, and a button that clears them. */
  #chip() {
    const set = Object.entries(this.filters).filter(([name, value]) => value && Object.hasOwn(NAMES, name));
    const words = ([name, value]) => {
      if (value === "1" && (name === "unread" || name === "repairs")) return NAMES[name];
      if (name === "sort") return SORTED[value] ?? value;
      const control = this.controls[name];
      const label = control?.options ? [...control.options].find((one) => one.value === value)?.text : value;
      return `${NAMES[name]}: ${(label ?? value).slice(0, 60)}`;
    };
    this.chips.hidden = !set.length;
    fill(
      this.chips,
      set.map((one) =>
        button([h("span", { text: words(one) }), " ✕"], () => this.set(one[0], ""), {
          class: "chip",
          title: "Remove this filter",
        }),
      ),
      set.length ? button("Clear all", () => this.clear(), { class: "link" }) : null,
    );
  }

  /** Offer the values that exist: those that the gateway lists, and those of `rows`. */
  learn(rows, known = {}) {
    for (const name of Object.keys(this.seen)) {
      const [seen, control] = [this.seen[name], this.controls[name]];
      const before = seen.size;
      for (const row of rows)
        for (const value of name === "format" ? formatsOf(row) : [row[name]]) if (value) seen.add(value);
      for (const value of known[name] ?? []) seen.add(value);
      if (this.filters[name]) seen.add(this.filters[name]);
      if (seen.size === before && control.options.length > 1) continue;
      const words = { client_api: "any API", model: "any model", format: "any format" }[name];
      offer(control, [["", words], ...[...seen].sort()], this.filters[name] ?? "");
    }
  }
}

/** The formats of the calls of a row, or the one that it was parsed as; `auto` is not one. */
export const formatsOf = (row) =>
  (row.found ? row.found.split(", ") : [row.format]).filter((name) => name && name !== "auto");
