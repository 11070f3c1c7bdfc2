/**
 * The scrubber: step through a stream, or play it in real time. A step is a chunk with text, or an
 * event after the last of them.
 *
 * Above it is a timeline with an axis: how much of which kind arrived when, the longest pauses, and
 * the first token. The colours are those of the text.
 */

import { button, fill, h, select, svg } from "./dom.js";
import { countWhile } from "./slices.js";
import { bytes, count, many, seconds } from "./words.js";

const WIDTH = 1000;
const TALL = 64;
const COLUMNS = 250;
/** How many pixels a label of the axis has, and how many labels there are at most. */
const TICK = 100;
const MAX_TICKS = 8;
/** The kinds of the timeline, each made of kinds of spans. */
const GROUPS = {
  thinking: ["thinking"],
  text: ["text", "dropped"],
  call: ["marker", "name", "arguments"],
  repaired: ["repaired"],
};
const MAX_GAPS = 5;
/** How many milliseconds a step is played if the times are unknown. */
const PACE = 40;

export class Scrubber {
  /** `show` sets the steps; `reach(number)` is called with how many of them have arrived. */
  constructor(reach) {
    this.reach = reach;
    this.steps = [];
    this.at = 0;
    this.speed = 1;
    this.range = h("input", {
      type: "range",
      min: 0,
      value: 0,
      class: "range",
      "aria-label": "Step",
      on: { input: () => this.go(Number(this.range.value)) },
    });
    this.told = h("output.told");
    this.button = button(icon("play"), () => this.toggle(), { class: "play", "aria-label": "Play" });
    const sign = (name, label, act) =>
      button(icon(name), act, { class: "plain", "aria-label": label, title: label });
    const speed = select(
      [
        ["0.25", "¼×"],
        ["1", "1×"],
        ["4", "4×"],
        ["16", "16×"],
      ],
      "1",
      (value) => this.#pace(Number(value)),
      "Speed",
    );
    this.plot = h("div.plot");
    this.element = h(
      "section.scrubber",
      { "aria-label": "Timeline" },
      this.plot,
      h(
        "div.steps",
        sign("first", "Go to start", () => this.go(0)),
        sign("back", "Step back", () => this.step(-1)),
        this.button,
        sign("on", "Step forward", () => this.step(1)),
        sign("last", "Go to end", () => this.go(this.steps.length)),
        this.range,
        this.told,
        speed,
      ),
    );
  }

  /** Show a stream: the milliseconds of its `steps`, its `timeline` of `[ms, bytes]`, and `marks`. */
  show(steps, timeline = null, marks = {}) {
    this.pause();
    this.steps = steps;
    this.isTimed = timeline !== null;
    this.range.max = steps.length;
    this.cursor = null;
    this.end = 0;
    if (timeline?.length) this.draw(timeline, marks);
    else fill(this.plot);
    this.go(steps.length);
  }

  /** Draw the timeline alone: `marks` are the `first` token, the `end`, and the `kinds` over time. */
  draw(timeline, marks) {
    fill(this.plot, this.#drawn(timeline, marks));
  }

  /** Say something in place of the current step. */
  tell(words) {
    this.told.textContent = words;
  }

  /** Show the state after `at` steps. */
  go(at, isPlaying = false) {
    if (!isPlaying) this.pause();
    this.at = Math.max(0, Math.min(at, this.steps.length));
    this.range.value = this.at;
    const time = this.isTimed && this.at ? ` · ${seconds(this.#time() / 1000)}` : "";
    this.told.textContent = `step ${count(this.at)} of ${count(this.steps.length)}${time}`;
    this.range.setAttribute("aria-valuetext", this.told.textContent);
    const x = String(this.at >= this.steps.length && this.end ? WIDTH : this.#x(this.at ? this.#time() : 0));
    this.cursor?.setAttribute("x1", x);
    this.cursor?.setAttribute("x2", x);
    this.reach(this.at);
  }

  step(by) {
    this.go(this.at + by);
  }

  toggle() {
    if (this.frame) this.pause();
    else this.play();
  }

  /** Play in real time. */
  play() {
    if (this.at >= this.steps.length) this.go(0);
    this.#label("pause", "Pause");
    this.#clock();
    const tick = () => {
      const now = (performance.now() - this.began) * this.speed;
      const at = this.isTimed
        ? countWhile(this.steps.length, (one) => this.steps[one] <= now)
        : Math.floor(now / PACE);
      if (at !== this.at) this.go(at, true);
      if (this.at >= this.steps.length) this.pause();
      else this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
  }

  pause() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.#label("play", "Play");
  }

  #label(sign, words) {
    if (this.button.getAttribute("aria-label") === words) return;
    fill(this.button, icon(sign));
    this.button.setAttribute("aria-label", words);
  }

  #pace(speed) {
    this.speed = speed;
    if (this.frame) this.#clock();
  }

  #clock() {
    const played = this.isTimed ? (this.at ? this.#time() : 0) : this.at * PACE;
    this.began = performance.now() - played / this.speed;
  }

  #time() {
    return this.steps[this.at - 1] ?? 0;
  }

  #x(time) {
    return this.end ? Math.round((time / this.end) * WIDTH) : 0;
  }

  // --- the timeline ---

  #drawn(timeline, { first, end, kinds = [] }) {
    this.end = Math.max(1, end ?? 0, timeline.at(-1)[0]);
    this.cursor = svg("line.cursor", { y1: 0, y2: TALL, x1: WIDTH, x2: WIDTH });
    const gaps = longest(timeline);
    const total = timeline.reduce((sum, [, size]) => sum + size, 0);
    const [layers, shown] = this.#layers(timeline, kinds);
    const words = [
      many(timeline.length, "chunk"),
      bytes(total),
      first != null && `first token after ${seconds(first / 1000)}`,
      gaps.length && `longest pause ${seconds((gaps[0][1] - gaps[0][0]) / 1000)}`,
      `${seconds(this.end / 1000)} in total`,
    ]
      .filter(Boolean)
      .join(" · ");
    const drawing = svg(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${TALL}`,
        preserveAspectRatio: "none",
        role: "img",
        "aria-label": `Timeline: ${words}`,
      },
      gaps.map(([from, to]) =>
        svg("rect", {
          class: "gap",
          x: this.#x(from),
          width: this.#x(to) - this.#x(from),
          y: 0,
          height: TALL,
        }),
      ),
      layers,
      first != null && svg("line.first", { x1: this.#x(first), x2: this.#x(first), y1: 0, y2: TALL }),
      this.cursor,
    );
    drawing.addEventListener("click", (event) => {
      const box = drawing.getBoundingClientRect();
      const time = ((event.clientX - box.left) / box.width) * this.end;
      this.go(countWhile(this.steps.length, (one) => this.steps[one] <= time));
    });
    return [
      drawing,
      axis(this.end),
      h(
        "p.quiet",
        shown.map((name) => [h(`span.swatch.s-${name}`), `${name} `]),
        gaps.length ? [h("span.swatch.gap"), "pause "] : [],
        first != null ? [h("span.swatch.first"), "first token "] : [],
        h("span.words", words),
      ),
    ];
  }

  /** Draw bars, a layer for each kind; without kinds, one for the bytes of the chunks. */
  #layers(timeline, kinds) {
    const names = Object.keys(GROUPS);
    const which = new Map(names.flatMap((name, at) => GROUPS[name].map((kind) => [kind, at])));
    const known = kinds.length
      ? kinds.map(([time, kind, size]) => [time, which.get(kind) ?? 1, size])
      : timeline.map(([time, size]) => [time, 0, size]);
    const sums = Array.from({ length: kinds.length ? names.length : 1 }, () => new Float64Array(COLUMNS + 1));
    const totals = new Float64Array(COLUMNS + 1);
    for (const [time, layer, size] of known) {
      const column = Math.min(COLUMNS, Math.floor((time / this.end) * COLUMNS));
      sums[layer][column] += size;
      totals[column] += size;
    }
    const most = Math.max(1, ...totals);
    const step = WIDTH / (COLUMNS + 1);
    const paths = sums.map(() => "");
    totals.forEach((total, at) => {
      if (!total) return;
      const tall = 6 + Math.sqrt(total / most) * (TALL - 8);
      let y = TALL;
      sums.forEach((sum, layer) => {
        const part = (sum[at] / total) * tall;
        if (!part) return;
        paths[layer] += `M${(at * step).toFixed(1)} ${y.toFixed(1)}v-${part.toFixed(1)}h${(step * 0.85).toFixed(1)}v${part.toFixed(1)}z`;
        y -= part;
      });
    });
    const shown = kinds.length ? names : ["chunks"];
    const there = shown.filter((_, layer) => paths[layer]);
    return [shown.map((name, layer) => paths[layer] && svg(`path.s-${name}`, { d: paths[layer] })), there];
  }
}

/** The axis of time below the plot, with round labels. */
function axis(end) {
  const rough = end / Math.min(MAX_TICKS, innerWidth / TICK);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const ticks = [];
  for (let time = 0; time <= end - (end * TICK) / innerWidth / 2; time += step) {
    const tick = h("span", time ? seconds(time / 1000).replace(/\.?0+(?= s)/u, "") : "0");
    tick.style.setProperty("left", `${(time / end) * 100}%`);
    ticks.push(tick);
  }
  return h("div.ticks", { "aria-hidden": "true" }, ticks);
}

/** The icons of the buttons, as paths: not every font has them. */
const ICONS = {
  first: "M3 3h2v10H3zM13 3v10L6 8z",
  back: "M11 3v10L4 8z",
  play: "M4 2.5v11l9-5.5z",
  pause: "M4 3h3v10H4zM9 3h3v10H9z",
  on: "M5 3v10l7-5z",
  last: "M11 3h2v10h-2zM3 3v10l7-5z",
};
const icon = (name) =>
  svg(
    "svg.icon",
    { viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" },
    svg("path", { d: ICONS[name] }),
  );

/** Return the longest pauses between chunks: at least 250 ms, and three times the average. */
function longest(timeline) {
  const usual = (timeline.at(-1)[0] - timeline[0][0]) / (timeline.length - 1 || 1);
  const found = [];
  for (let at = 1; at < timeline.length; at += 1) {
    const [from, to] = [timeline[at - 1][0], timeline[at][0]];
    if (to - from >= Math.max(250, usual * 3)) found.push([from, to]);
  }
  return found.sort((a, b) => b[1] - b[0] - (a[1] - a[0])).slice(0, MAX_GAPS);
}
