/**
 * A list of any length: only the visible rows are in the document.
 *
 * Every row has the same height, so the position of a row is a multiplication, and 100,000 rows cost
 * as much as fifty. The arrow keys, Home, End and the Page keys move the current row.
 */

import { h } from "./dom.js";
import { eachFrame } from "./slices.js";

/** How many rows are drawn above and below the visible ones. */
const SPARE = 8;

/** The greatest height of an element in browsers, with a margin. */
const MAX_HEIGHT = 15_000_000;

export class Rows {
  /**
   * `draw(at)` makes the row at a place; `height` is that of each, in pixels. `role` is "listbox"
   * (one element has the focus) or "list" (each row holds a link). `move(at)` and `pick(at)` are
   * called with the row that became current or was chosen; `near()` when the end is near.
   */
  constructor({ label, height, draw, role = "listbox", move, pick, near, point }) {
    Object.assign(this, { height, draw, role, move, pick, near });
    this.count = 0;
    this.current = -1;
    this.drawn = new Map();
    this.room = h("div.rows-room", { role: "presentation" });
    this.element = h("div.rows", { role, "aria-label": label, tabindex: 0 }, this.room);
    this.name = `rows-${(Rows.made = (Rows.made ?? 0) + 1)}`;
    this.update = eachFrame(() => this.#update());
    this.element.addEventListener("scroll", this.update, { passive: true });
    this.element.addEventListener("keydown", (event) => this.#key(event));
    this.element.addEventListener("click", (event) => this.#click(event));
    if (point) {
      this.element.addEventListener("pointerover", (event) => point(this.#at(event)));
      this.element.addEventListener("pointerleave", () => point(-1));
    }
    new ResizeObserver(this.update).observe(this.element);
  }

  /** Set the number of rows; `anew` draws the existing ones again. */
  resize(count, anew = true) {
    this.count = count;
    this.room.style.setProperty("height", `${Math.min(count * this.height, MAX_HEIGHT)}px`);
    if (this.current >= count) this.current = count - 1;
    if (anew) this.clear();
    this.update();
  }

  /** Draw the visible rows again. */
  clear() {
    const isHeld = this.#holds(this.room);
    for (const row of this.drawn.values()) row.remove();
    this.drawn.clear();
    if (isHeld) this.#update();
    else this.update();
    if (isHeld) this.focus();
  }

  /** Draw one row again, if it is visible. */
  redraw(at) {
    const row = this.drawn.get(at);
    if (!row) return;
    const isHeld = this.#holds(row);
    row.remove();
    this.#add(at);
    if (isHeld) this.focus();
  }

  /** Focus the current row's link. */
  focus() {
    this.row(this.current)?.querySelector("a")?.focus({ preventScroll: true });
  }

  #holds(element) {
    return element.contains(document.activeElement);
  }

  /** Make the row at an index the current one, and scroll to it. */
  go(at, quietly = false) {
    if (!this.count) return;
    const old = this.current;
    this.current = Math.max(0, Math.min(at, this.count - 1));
    this.reveal(this.current);
    this.#mark(old);
    this.#mark(this.current);
    this.#update();
    if (!quietly) this.move?.(this.current);
  }

  /** Scroll to a row. */
  reveal(at) {
    const [top, view] = [at * this.height, this.element.clientHeight];
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    else if (top + this.height > this.element.scrollTop + view)
      this.element.scrollTop = top + this.height - view;
  }

  /** Return the element of a row, if it is drawn. */
  row(at) {
    return this.drawn.get(at);
  }

  #update() {
    const { scrollTop, clientHeight } = this.element;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - SPARE);
    const last = Math.min(this.count, Math.ceil((scrollTop + clientHeight) / this.height) + SPARE);
    for (const [at, row] of this.drawn) {
      if (at < first || at >= last) {
        row.remove();
        this.drawn.delete(at);
      }
    }
    for (let at = last - 1; at >= first; at -= 1) if (!this.drawn.has(at)) this.#add(at);
    this.#active();
    if (this.near && last >= this.count) this.near();
  }

  #add(at) {
    const row = this.draw(at);
    row.classList.add("row");
    row.id = `${this.name}-${at}`;
    row.dataset.at = at;
    row.style.setProperty("transform", `translateY(${at * this.height}px)`);
    row.style.setProperty("height", `${this.height}px`);
    row.setAttribute("role", this.role === "listbox" ? "option" : "listitem");
    row.setAttribute("aria-setsize", this.count);
    row.setAttribute("aria-posinset", at + 1);
    this.drawn.set(at, row);
    this.room.insertBefore(row, this.drawn.get(at + 1) ?? null); // read aloud in this order
    this.#mark(at);
  }

  #mark(at) {
    const row = this.drawn.get(at);
    if (!row) return;
    row.classList.toggle("current", at === this.current);
    if (this.role === "listbox") row.setAttribute("aria-selected", at === this.current);
  }

  #active() {
    if (this.role !== "listbox") return;
    const row = this.drawn.get(this.current);
    if (row) this.element.setAttribute("aria-activedescendant", row.id);
    else this.element.removeAttribute("aria-activedescendant");
  }

  #at(event) {
    return Number(event.target.closest?.(".row")?.dataset.at ?? -1);
  }

  #click(event) {
    const at = this.#at(event);
    if (at < 0) return;
    this.go(at);
    this.pick?.(at);
  }

  #key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.height) - 1);
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key in steps)
      this.go(steps[event.key] === Infinity ? this.count - 1 : this.current + steps[event.key]);
    else if (event.key === "Enter" && this.current >= 0) this.pick?.(this.current);
    else return;
    event.preventDefault();
  }
}
