/**
 * Text of any length, each character in the colour of its span.
 *
 * The text is split into blocks at line ends, or within a very long line. A block is filled with
 * nodes when it comes near the visible part, and emptied when it is far away; an empty block keeps
 * its height. So five megabytes in one line cost as much as one screen.
 */

import { coded, h, written } from "./dom.js";
import { KINDS } from "./words.js";
import { countWhile, inSlices } from "./slices.js";

/** How many characters a block has: more in a very long text, to limit their number. */
const BLOCK = 3000;
const MAX_BLOCK = 12_000;
const BLOCKS = 1500;

/** The assumed height of a line in pixels, and its characters, before anything is measured. */
const LINE = 21;
const COLUMNS = 80;

export class TextView {
  /** `point(event)` is called when the pointer is over the text of an event, `pick(event)` on a click. */
  constructor({ label, point, pick }) {
    this.element = h("div.text", { role: "group", "aria-label": label, tabindex: 0 });
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
   * shown at their place; `seams` are offsets before which a line ends, with a label or none; `unread`
   * are `{at, end}` of text that looks like a call.
   */
  async show(text, spans = [], remarks = [], seams = new Map(), unread = []) {
    const mine = (this.reset += 1);
    this.watch.disconnect();
    Object.assign(this, { text, spans, seams, reached: text.length });
    this.unread = unread.filter(({ at, end }) => Number.isInteger(at) && Number.isInteger(end));
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

  /** Add text at the end, with its spans, and stay at the end if it is visible. */
  grow(text, spans) {
    const box = this.element;
    const isLow = box.scrollTop + box.clientHeight > box.scrollHeight - 3 * LINE;
    const isAll = this.reached >= this.text.length;
    this.text += text;
    for (const span of spans) this.spans.push(span);
    if (isAll) this.reached = this.text.length;
    const columns = Math.max(20, Math.floor(box.clientWidth / 8.2) || COLUMNS);
    if (this.blocks.length) this.edges.pop();
    while (this.edges.at(-1) < this.text.length) this.edges.push(cut(this.text, this.edges.at(-1), BLOCK));
    const last = this.blocks.length - 1;
    if (last >= 0 && this.blocks[last].firstChild) this.#fill(last);
    while (this.blocks.length < this.edges.length - 1) this.#addBlock(this.blocks.length, columns);
    if (isLow) box.scrollTop = box.scrollHeight;
  }

  /** Dim what is after `offset`: it has not arrived. */
  reach(offset) {
    const [low, high] = [Math.min(offset, this.reached), Math.max(offset, this.reached)];
    this.reached = offset;
    const last = this.#blockAt(high);
    for (let at = this.#blockAt(low); at <= last && at < this.blocks.length; at += 1) {
      this.#dim(at);
      if (this.blocks[at].firstChild) this.#fill(at);
    }
  }

  /** Highlight the text of an event; -1 removes it. */
  light(event) {
    if (event === this.lit) return;
    this.lit = event;
    for (const one of this.element.querySelectorAll(".lit")) one.classList.remove("lit");
    if (event >= 0)
      for (const one of this.element.querySelectorAll(`[data-event="${Number(event)}"]`))
        one.classList.add("lit");
  }

  /** Scroll to the character at `offset`. */
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

  /** Return a range of the text as elements, split at the reached offset and at remarks. */
  #pieces(from, to, span) {
    const pieces = [];
    const seam = this.seams.get(from);
    if (seam) pieces.push(h("span.seam.unseen", seam));
    else if (seam === "") pieces.push(h("br"));
    const isLast = to === this.text.length;
    const here = [];
    let at = countWhile(this.remarks.length, (one) => this.remarks[one].at < from);
    for (; this.remarks[at] && (this.remarks[at].at < to || isLast); at += 1) here.push(this.remarks[at]);
    // Text that is not a call follows its remark; other remarks follow their text.
    const before = here.filter((one) => one.kind === "unread" && one.at < to);
    const cuts = [...before.map((one) => one.at), ...this.unread.flatMap(({ at, end }) => [at, end]), this.reached, to].filter(
      (one) => one > from && one <= to,
    );
    let left = from;
    for (const right of [...new Set(cuts)].sort((a, b) => a - b)) {
      pieces.push(...before.filter((one) => one.at === left).map(remark), this.#piece(left, right, span));
      left = right;
    }
    pieces.push(...here.filter((one) => !before.includes(one)).map(remark));
    return pieces;
  }

  #piece(from, to, span) {
    const [, , kind, event, note] = span ?? [];
    const known = Object.hasOwn(KINDS, kind) ? `k-${kind}` : "k-none";
    const ahead = from >= this.reached ? " ahead" : "";
    const lit = event === this.lit && event >= 0 ? " lit" : "";
    const doubtful = this.unread.some(({ at, end }) => at <= from && to <= end) ? " doubtful" : "";
    const element = h(
      "span",
      { class: known + ahead + lit + doubtful, title: note || null, data: { to } },
      written(this.text.slice(from, to)),
    );
    if (Number.isInteger(event)) element.dataset.event = event;
    return element;
  }
}

/** A remark at a place in the text. */
export function remark({ kind, text }) {
  const sign = { repair: "✎", error: "✕", cut: "✂", dropped: "∅", unread: "⚠" }[kind] ?? "•";
  return h(
    "span",
    { class: `remark remark-${sign === "•" ? "other" : kind}`, role: "note" },
    `${sign} `,
    coded(text),
  );
}

/** The legend of the colours: the words in their colours, and on a click what each means. */
export function legend(kinds = Object.keys(KINDS)) {
  const sample = (kind) => h("span", { class: `k-${kind}` }, kind);
  return h(
    "details.legend",
    h("summary", h("span.quiet", "Legend "), kinds.map(sample)),
    h(
      "dl",
      kinds.map((kind) => h("div", h("dt", sample(kind)), h("dd", KINDS[kind]))),
    ),
  );
}

function eventOf(event) {
  const found = event.target.closest?.("[data-event]");
  return found ? Number(found.dataset.event) : -1;
}

/** Find the end of the block that begins at `from`: after a line end, never within a character. */
function cut(text, from, size) {
  const most = from + size;
  if (most >= text.length) return text.length;
  // Search the block only: in a line of megabytes, a search of the text would read all of it.
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
