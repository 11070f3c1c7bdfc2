/**
 * The playground: parse any text in any format, in chunks of any size, as you type.
 */

import { about, askJSON, askLong } from "./api.js";
import { brief, button, copy, field, fill, group, h, say, select, written } from "./dom.js";
import { Panes } from "./panes.js";
import { pack, unpack } from "./share.js";
import { later } from "./slices.js";
import { ARGUMENTS, count, many } from "./words.js";

const CHUNKS = [0, 4096, 1024, 256, 64, 16, 8, 4, 2, 1];
/** After how many milliseconds without a response the old result is dimmed. */
const PATIENCE = 400;
const MAX_LINK = 300_000;
/** The longest text that the gateway accepts. */
const MAX_TEXT = 300_000;
const LAWS = {
  lossless: ["Lossless", "The raw text of all events, joined, is the text: nothing is lost or added."],
  chunk_free: [
    "Chunk-free",
    "The events are the same for the whole text, in these chunks, and character by character.",
  ],
  monotone: ["Monotone", "No event takes back what an earlier one has said, so clients can show it at once."],
};
const REPAIR = "Repair a damaged call that has one possible meaning. The gateway does this by default.";
const TRIM = "Remove white space at both ends of the text. The gateway does this by default.";
const SAMPLE =
  'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>\n';

/** Show the playground, with the state in the address if there is one. */
export async function playground(main, rest, signal) {
  const place = new Playground(main, signal, await about());
  place.set((rest && (await unpack(rest))) || { text: SAMPLE, format: "auto", chunk: 8 });
  place.parse();
  return { ...place.panes.keys, "/": () => place.text.focus() };
}

class Playground {
  constructor(main, signal, { formats = [], reasoning = [], tools = [] }) {
    Object.assign(this, { signal, formats, usual: JSON.stringify(tools, null, 2) });
    this.running = new AbortController();
    this.comparing = new AbortController();
    this.panes = new Panes();
    const soon = later(180, () => this.parse());
    const change = () => soon();
    this.text = h("textarea.pasted.code", {
      rows: 12,
      maxlength: MAX_TEXT,
      spellcheck: "false",
      "aria-label": "Model output",
      on: { input: change },
    });
    this.tools = h("textarea", {
      rows: 8,
      class: "code",
      spellcheck: "false",
      "aria-label": "Tools as JSON",
      "aria-describedby": "tools-wrong",
      on: { input: change },
    });
    this.wrong = h("p.wrong", { id: "tools-wrong", role: "status" });
    const names = formats.map((one) => one.name);
    this.format = select(["auto", ...names.filter((name) => name !== "auto")], "auto", change, "Format");
    this.sample = select(
      [["", "Choose a sample …"], ...formats.filter((one) => one.sample).map((one) => one.name)],
      "",
      (name) => this.#pick(name),
      "Sample of a format",
    );
    this.arguments = select(ARGUMENTS, "live", change, "Arguments");
    this.reasoning = select([["", "default of the format"], ...reasoning], "", change, "Reasoning");
    this.repair = h("input", { type: "checkbox", on: { change } });
    this.trim = h("input", { type: "checkbox", on: { change } });
    this.size = h("output.told");
    this.chunk = h("input", {
      type: "range",
      min: 0,
      max: CHUNKS.length - 1,
      value: 0,
      "aria-label": "Chunk size",
      on: { input: () => (this.#tellSize(), change()) },
    });
    this.laws = h("ul.laws", { "aria-label": "Guarantees" });
    this.failure = h("p.wrong", { role: "status" });
    this.table = group("Result of each format", "formats");
    this.compare = h(
      "details.compare",
      { on: { toggle: () => this.#compare() } },
      h("summary", "Compare all formats"),
      this.table,
    );
    this.result = h(
      "section.result",
      { "aria-label": "Result" },
      h("div.verdict", this.laws, this.failure, h("details.hint", h("summary", "What do these checks mean?"), this.#meaning())),
      this.panes.element,
      this.compare,
    );
    fill(main, h("h1.hidden", "Playground"), h("div.bench", this.#form(), this.result));
  }

  #meaning() {
    return h("dl.laws-told", Object.values(LAWS).map(([title, words]) => h("div", h("dt", title), h("dd", words))));
  }

  #form() {
    const check = (input, words, title) => h("label.check", { title }, input, words);
    return h(
      "form.stack",
      { on: { submit: (event) => event.preventDefault() } },
      h("div.pair", field("Sample", this.sample), field("Format", this.format)),
      field("Text", this.text),
      h(
        "details.options",
        { open: matchMedia("(min-width: 1001px)").matches },
        h("summary", "Chunks, options and tools"),
        h(
          "div.stack",
          field(h("span", "Chunks of ", this.size), this.chunk),
          h("div.pair", field("Arguments", this.arguments), field("Reasoning", this.reasoning)),
          h("div.checks", check(this.repair, "repair calls", REPAIR), check(this.trim, "trim text", TRIM)),
          field("Tools", this.tools),
          this.wrong,
          h(
            "div.actions",
            button("Copy link", () => this.#share()),
          ),
        ),
      ),
    );
  }

  /** Set a state, such as one from a link; invalid values are ignored. */
  set(state) {
    const word = (value, usual) => (typeof value === "string" ? value : usual);
    this.text.value = word(state.text, "").slice(0, MAX_TEXT);
    this.tools.value = word(state.tools, this.usual);
    for (const name of ["format", "arguments", "reasoning"]) {
      const options = [...this[name].options].map((one) => one.value);
      if (options.includes(state[name])) this[name].value = state[name];
    }
    this.repair.checked = state.repair === true;
    this.trim.checked = state.trim === true;
    this.chunk.value = Math.max(0, CHUNKS.indexOf(state.chunk));
    this.#tellSize();
  }

  get state() {
    return {
      text: this.text.value,
      format: this.format.value,
      tools: this.tools.value,
      arguments: this.arguments.value,
      reasoning: this.reasoning.value,
      repair: this.repair.checked,
      trim: this.trim.checked,
      chunk: CHUNKS[Number(this.chunk.value)],
    };
  }

  /** Parse the text with the current settings; the request before it is aborted. */
  async parse() {
    const tools = this.#readTools();
    this.running.abort();
    this.running = new AbortController();
    this.#age(true, tools ? PATIENCE : 0);
    if (!tools) {
      this.failure.textContent = "The tools are not valid. The result below is from before.";
      return;
    }
    const signal = AbortSignal.any([this.signal, this.running.signal]);
    const { reasoning, ...state } = this.state;
    try {
      const analysis = await askLong("/inspector/api/parse", {
        method: "POST",
        signal,
        body: { ...state, tools, reasoning: reasoning || null },
      });
      this.failure.textContent =
        this.text.value.length < MAX_TEXT
          ? ""
          : `The playground accepts at most ${count(MAX_TEXT)} characters. Use penstock inspect FILE for longer texts.`;
      this.#age(false);
      this.#showLaws(analysis.laws ?? {}, analysis.complaints ?? []);
      this.panes.show(analysis);
      this.#keep(signal);
      this.#compare();
    } catch (error) {
      if (signal.aborted) return;
      this.#age(true);
      this.failure.textContent = error.message;
    }
  }

  /** Mark the result as old or current, `time` milliseconds from now. */
  #age(isOld, time = 0) {
    clearTimeout(this.aging);
    const turn = () => {
      this.result.classList.toggle("stale", isOld);
      this.result.setAttribute("aria-busy", isOld);
    };
    if (time) this.aging = setTimeout(turn, time);
    else turn();
  }

  #readTools() {
    try {
      const tools = this.tools.value.trim() ? JSON.parse(this.tools.value) : [];
      if (!Array.isArray(tools)) throw new Error("tools must be a JSON array: [ … ]");
      const bad = tools.findIndex((one) => !(one?.name ?? one?.function?.name));
      if (bad !== -1) throw new Error(`tool ${bad + 1} has no name`);
      this.wrong.textContent = "";
      this.tools.removeAttribute("aria-invalid");
      return tools;
    } catch (error) {
      this.wrong.textContent = error.message;
      this.tools.setAttribute("aria-invalid", "true");
      return null;
    }
  }

  #tellSize() {
    const size = CHUNKS[Number(this.chunk.value)];
    this.size.textContent = size ? many(size, "character") : "the whole text";
    this.chunk.setAttribute("aria-valuetext", this.size.textContent);
  }

  #pick(name) {
    const found = this.formats.find((one) => one.name === name);
    if (!found) return;
    this.text.value = found.sample;
    this.format.value = name;
    this.tools.value = this.usual;
    this.parse();
  }

  #showLaws(laws, complaints) {
    const one = ([name, [title, words]]) => {
      const holds = laws[name];
      const look = holds === true ? "good" : holds === false ? "bad" : "gone";
      return h(
        "li",
        { class: `law ${look}`, title: words, "aria-label": `${title}: ${{ good: "holds", bad: "is broken", gone: "not checked" }[look]}` },
        { good: "✓ ", bad: "✕ ", gone: "– " }[look],
        title,
      );
    };
    fill(
      this.laws,
      Object.entries(LAWS).map(one),
      (laws.notes ?? []).map((words) => h("li.quiet", { text: String(words) })),
      complaints.slice(0, 5).map((words) => h("li.mended", { text: brief(words, 200) })),
    );
  }

  // --- links ---

  async #keep(signal) {
    if (this.text.value.length > MAX_LINK) return;
    const packed = await pack(this.state);
    if (!signal.aborted && location.hash.startsWith("#/playground"))
      history.replaceState(null, "", `#/playground?${packed}`);
  }

  async #share() {
    if (this.text.value.length > MAX_LINK) say("The text is too long for a link");
    else await copy(`${location.origin}${location.pathname}#/playground?${await pack(this.state)}`, "link");
  }

  // --- all formats ---

  async #compare() {
    const tools = this.#readTools();
    if (!this.compare.open || !tools) return;
    this.comparing.abort();
    this.comparing = new AbortController();
    const signal = AbortSignal.any([this.signal, this.comparing.signal]);
    try {
      const body = { text: this.text.value, tools };
      const answer = await askJSON("/inspector/api/formats", { method: "POST", signal, body });
      fill(this.table, this.#compared(answer.formats ?? [], answer.detected));
    } catch (error) {
      if (!signal.aborted) fill(this.table, h("p.wrong", { text: error.message }));
    }
  }

  #compared(list, detected) {
    const ranked = [...list].sort((a, b) => (b.calls?.length ?? 0) - (a.calls?.length ?? 0));
    const use = (name) => {
      this.format.value = name;
      this.parse();
    };
    const line = ({ format, calls = [], text = "", complaints = [] }) =>
      h(
        "tr",
        { class: calls.length ? "" : "none" },
        h(
          "th",
          { scope: "row" },
          button(written(format), () => use(format), { class: "link" }),
          format === detected && h("span.pill", "detected"),
        ),
        h(
          "td",
          calls.length
            ? calls
                .slice(0, 5)
                .map((call) =>
                  h(
                    "div",
                    h("b", { text: call.name ?? "?" }),
                    " ",
                    h("code", { text: brief(JSON.stringify(call.arguments) ?? "", 120) }),
                  ),
                )
            : h("span.quiet", "no calls"),
        ),
        h("td", h("code", { text: brief(text, 80) })),
        h("td.mended", { text: brief(complaints.join("; "), 120) }),
      );
    return h(
      "table",
      h(
        "thead",
        h(
          "tr",
          ["Format", "Calls", "Text", "Error"].map((name) => h("th", { scope: "col" }, name)),
        ),
      ),
      h("tbody", ranked.map(line)),
    );
  }
}
