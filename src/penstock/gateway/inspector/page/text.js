/**
 * Text of any length, each character coloured by what claimed it.
 *
 * The text is cut into blocks at ends of lines (or where a line is very long, in the middle of it).
 * A block is filled with nodes when it comes near to what is seen, and emptied when it is far away;
 * in between it only keeps its height. So five megabytes in one line cost what a screenful costs.
 */

import { h, written } from "./dom.js";
import { KINDS } from "./words.js";
import { countWhile, inSlices } from "./slices.js";

/** How many characters a block has: more in a very long text, so that there are not too many of them. */
const BLOCK = 3000;
const MAX_BLOCK = 12_000;
const BLOCKS = 1500;

/** What one line takes before anything is measured, in pixels, and how many characters it has. */
const LINE = 21;
const COLUMNS = 80;

export class TextView {
  /** `point(event)` is told over which event's text the pointer is, `pick(event)` on which it was pressed. */
  constructor({ label, point, pick }) {
    this.element = h("div", {
      class: "text",
      role: "group",
      "aria-label": label,
      tabindex: 0,
      data: { empty: "Nothing." },
    });
    this.reset = 0;
    this.lit = -1;
    this.watch = new IntersectionObserver((seen) => this.#seen(seen), {
      root: this.element,
      rootMargin: "400px 0px",
    });
    if (point) {
      this.element.addEventListener("pointerover", (event) => point(eventOf(event)));
      this.element.addEventListener("pointerleave", () => point(-1));
    }
    if (pick) this.element.addEventListener("click", (event) => eventOf(event) >= 0 && pick(eventOf(event)));
    this.show("");
  }

  /**
   * Show `text`. `spans` are `[from, to, kind, event, note?]`, sorted; `remarks` are `{at, text, kind}`,
   * said in words at their place; `seams` are offsets before which a line ends, with a word or none.
   */
  async show(text, spans = [], remarks = [], seams = new Map()) {
    const mine = (this.reset += 1);
    this.watch.disconnect();
    Object.assign(this, { text, spans, seams, reached: text.length });
    this.remarks = remarks.filter((one) => Number.isInteger(one.at)).sort((a, b) => a.at - b.at);
    this.edges = [0];
    this.blocks = [];
    this.element.replaceChildren();
    const size = Math.max(BLOCK, Math.min(MAX_BLOCK, Math.ceil(text.length / BLOCKS)));
    while (this.edges.at(-1) < text.length) this.edges.push(cut(text, this.edges.at(-1), size));
    const columns = Math.max(20, Math.floor(this.element.clientWidth / 8.2) || COLUMNS);
    await inSlices(
      this.edges.length - 1,
      (at) => this.#addBlock(at, columns),
      () => mine !== this.reset,
    );
  }

  /** Show as not yet come what stands behind `offset`. */
  reach(offset) {
    const [low, high] = [Math.min(offset, this.reached), Math.max(offset, this.reached)];
    this.reached = offset;
    const last = this.#blockAt(high);
    for (let at = this.#blockAt(low); at <= last && at < this.blocks.length; at += 1) {
      this.#dim(at);
      if (this.blocks[at].firstChild) this.#fill(at);
    }
  }

  /** Light up the text of an event; -1 is none. */
  light(event) {
    if (event === this.lit) return;
    this.lit = event;
    for (const one of this.element.querySelectorAll(".lit")) one.classList.remove("lit");
    if (event >= 0)
      for (const one of this.element.querySelectorAll(`[data-event="${Number(event)}"]`))
        one.classList.add("lit");
  }

  /** Bring the character at `offset` into sight. */
  reveal(offset) {
    const at = Math.min(this.#blockAt(offset), this.blocks.length - 1);
    const block = this.blocks[at];
    if (!block) return;
    if (!block.firstChild) this.#fill(at);
    const target = [...block.children].find((one) => Number(one.dataset.to) > offset) ?? block;
    const [outer, inner] = [this.element.getBoundingClientRect(), target.getBoundingClientRect()];
    if (inner.top < outer.top || inner.bottom > outer.bottom - LINE) {
      this.element.scrollTop += inner.top - outer.top - outer.height / 3;
    }
  }

  #blockAt(offset) {
    return Math.max(0, countWhile(this.edges.length, (at) => this.edges[at] <= offset) - 1);
  }

  #addBlock(at, columns) {
    const block = h("div.block", { data: { at } });
    const [from, to] = [this.edges[at], this.edges[at + 1]];
    block.style.setProperty("min-height", `${linesIn(this.text.slice(from, to), columns) * LINE}px`);
    this.blocks.push(block);
    this.#dim(at);
    this.element.append(block);
    this.watch.observe(block);
  }

  #dim(at) {
    this.blocks[at].classList.toggle(
      "ahead",
      this.edges[at] >= this.reached && this.reached < this.text.length,
    );
  }

  #seen(entries) {
    for (const { target, isIntersecting, boundingClientRect } of entries) {
      if (isIntersecting && !target.firstChild) this.#fill(Number(target.dataset.at));
      else if (!isIntersecting && target.firstChild) {
        target.style.setProperty("min-height", `${boundingClientRect.height}px`);
        target.replaceChildren();
      }
    }
  }

  #fill(at) {
    const [from, to] = [this.edges[at], this.edges[at + 1]];
    const pieces = [];
    let next = countWhile(this.spans.length, (one) => this.spans[one][1] <= from);
    let left = from;
    while (left < to) {
      const span = this.spans[next];
      const isIn = span && span[0] <= left;
      const right = Math.min(to, isIn ? span[1] : (span?.[0] ?? to));
      pieces.push(...this.#pieces(left, right, isIn ? span : null));
      left = right;
      if (isIn && span[1] <= left) next += 1;
      if (isIn && span[1] <= span[0]) next += 1;
    }
    this.blocks[at].replaceChildren(...pieces);
    this.blocks[at].style.removeProperty("min-height");
  }

  /** Give the text between two places as elements: apart where it has been reached, and where there is a remark. */
  #pieces(from, to, span) {
    const pieces = [];
    const seam = this.seams.get(from);
    if (seam) pieces.push(h("span.seam.unseen", seam));
    else if (seam === "") pieces.push(h("br"));
    const cuts = this.reached > from && this.reached < to ? [this.reached, to] : [to];
    let left = from;
    for (const right of cuts) {
      pieces.push(this.#piece(left, right, span));
      left = right;
    }
    const isLast = to === this.text.length;
    let at = countWhile(this.remarks.length, (one) => this.remarks[one].at < from);
    for (; this.remarks[at] && (this.remarks[at].at < to || isLast); at += 1)
      pieces.push(remark(this.remarks[at]));
    return pieces;
  }

  #piece(from, to, span) {
    const [, , kind, event, note] = span ?? [];
    const known = Object.hasOwn(KINDS, kind) ? `k-${kind}` : "k-none";
    const ahead = from >= this.reached ? " ahead" : "";
    const lit = event === this.lit && event >= 0 ? " lit" : "";
    const element = h(
      "span",
      { class: known + ahead + lit, title: note || null, data: { to } },
      written(this.text.slice(from, to)),
    );
    if (Number.isInteger(event)) element.dataset.event = event;
    return element;
  }
}

/** What is said of a place in the text, in words. */
export function remark({ kind, text }) {
  const sign = { repair: "✎", error: "✕", cut: "✂", dropped: "∅" }[kind] ?? "•";
  return h(
    "span",
    { class: `remark remark-${sign === "•" ? "other" : kind}`, role: "note" },
    `${sign} `,
    written(text),
  );
}

/** The colours of spans and what they mean. */
export function legend(kinds = Object.keys(KINDS)) {
  return h(
    "ul.legend",
    { "aria-label": "What the colours mean" },
    kinds.map((kind) => h("li", { title: KINDS[kind] }, h("span", { class: `k-${kind}` }, kind))),
  );
}

function eventOf(event) {
  const found = event.target.closest?.("[data-event]");
  return found ? Number(found.dataset.event) : -1;
}

/** Find the end of the block that begins at `from`: behind an end of line, never within a character. */
function cut(text, from, size) {
  const most = from + size;
  if (most >= text.length) return text.length;
  // Looked for in the block alone: where a line is megabytes long, a search of the text reads them all.
  const line = text.slice(from, most).lastIndexOf("\n");
  if (line !== -1) return from + line + 1;
  const code = text.charCodeAt(most);
  return code >= 0xdc00 && code <= 0xdfff ? most + 1 : most;
}

function linesIn(block, columns) {
  let [lines, at] = [0, 0];
  while (at < block.length) {
    const found = block.indexOf("\n", at);
    const end = found === -1 ? block.length : found + 1;
    lines += Math.max(1, Math.ceil((end - at) / columns));
    at = end;
  }
  return Math.max(1, lines);
}
