/**
 * Plots over time, drawn as SVG: bars that stack, lines, and lists with bars.
 *
 * Each has axes with round labels, a text alternative with its totals, and its values as tooltips.
 * A colour means the same in every plot: `ok`, `bad` (`bad-2` to `bad-4` for kinds of failures), `odd`
 * (unread), `mild` (repaired), and `a` to `d` for kinds without a judgement.
 */

import { h, svg } from "./dom.js";
import { count } from "./words.js";

const [WIDTH, TALL] = [600, 120];
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });
const EXACT = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", hour: "2-digit" });

/** A plot of `buckets`. `series` are `[name, read, look]`; `isLine` draws lines, else stacked bars. */
export function plot(title, buckets, series, { isLine = false, unit = count, total = true } = {}) {
  const values = buckets.map((bucket) => series.map(([, read]) => read(bucket)));
  const most = Math.max(
    ...values.map((one) =>
      isLine ? Math.max(...one.map((x) => x ?? 0)) : one.reduce((sum, x) => sum + (x ?? 0), 0),
    ),
    0,
  );
  const top = roundUp(most, unit === count);
  const sums = series.map(([name], at) => {
    const all = values.map((one) => one[at]).filter((one) => one != null);
    if (!total) return name;
    return isLine
      ? `${name} up to ${unit(Math.max(0, ...all))}`
      : `${name} ${unit(all.reduce((sum, one) => sum + one, 0))}`;
  });
  const drawing = svg(
    "svg",
    {
      viewBox: `0 0 ${WIDTH} ${TALL}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${title}: ${most > 0 ? sums.join(", ") : "no data"}`,
    },
    [0, 0.5, 1].map((part) => svg("line", { class: "grid", x1: 0, x2: WIDTH, y1: level(part), y2: level(part) })),
    most > 0 && (isLine ? lines(values, series, top) : bars(values, series, top)),
    hover(buckets, values, series, unit),
  );
  return h(
    "figure.figure-box",
    h("figcaption", h("b", title), most > 0 ? null : h("span.quiet", "no data")),
    h(
      "div.axes",
      h(
        "div.scale",
        { "aria-hidden": "true" },
        [1, 0.5, 0].map((part) => h("span", most > 0 ? (part ? unit(top * part) : "0") : "")),
      ),
      drawing,
      h(
        "div.axis",
        { "aria-hidden": "true" },
        [0, 1 / 3, 2 / 3, 1].map((part) => h("span", at(buckets, part))),
      ),
    ),
    h(
      "ul.series",
      sums.map((words, place) => h("li", h("span", { class: `swatch ${series[place][2]}` }), words)),
    ),
  );
}

/** The height of a value, as a part of the greatest, in the drawing. */
const level = (part) => TALL - 2 - part * (TALL - 6);

/** Return the next number that is easy to read and to halve. */
function roundUp(value, isWhole) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  const found = [1, 2, 4, 5, 6, 8, 10].map((one) => one * power).find((one) => one >= value * 0.9999);
  return isWhole ? Math.max(2, Math.ceil(found / 2) * 2) : found;
}

function at(buckets, part) {
  const found = buckets[Math.round((buckets.length - 1) * part)];
  if (!found) return "";
  const range = buckets.at(-1).t - buckets[0].t;
  return (range > 86_400 ? DAY : range < 900 ? EXACT : CLOCK).format(new Date(found.t * 1000));
}

function bars(values, series, most) {
  const step = WIDTH / values.length;
  const paths = series.map(() => "");
  values.forEach((one, place) => {
    let y = level(0);
    one.forEach((value, which) => {
      const tall = ((value ?? 0) / most) * (TALL - 6);
      if (tall <= 0) return;
      paths[which] +=
        `M${(place * step + step * 0.12).toFixed(1)} ${y.toFixed(1)}v-${tall.toFixed(1)}h${(step * 0.76).toFixed(1)}v${tall.toFixed(1)}z`;
      y -= tall;
    });
  });
  return paths.map((d, which) => svg("path", { class: `bar ${series[which][2]}`, d }));
}

function lines(values, series, most) {
  const step = WIDTH / values.length;
  return series.map(([, , look], which) => {
    let [path, dots, isDown] = ["", "", false];
    values.forEach((one, place) => {
      const known = one[which] != null;
      if (known) {
        const point = `${((place + 0.5) * step).toFixed(1)} ${level(one[which] / most).toFixed(1)}`;
        path += `${isDown ? "L" : "M"}${point}`;
        dots += `M${point}h0.01`;
      }
      isDown = known;
    });
    return [
      svg("path", { class: `line ${look}`, d: path }),
      svg("path", { class: `line dots ${look}`, d: dots }),
    ];
  });
}

/** Invisible bars, one for each bucket, with its values as a tooltip. */
function hover(buckets, values, series, unit) {
  const step = WIDTH / buckets.length;
  return buckets.map((bucket, place) => {
    const told = series.map(
      ([name], which) => `${name}: ${values[place][which] == null ? "–" : unit(values[place][which])}`,
    );
    return svg(
      "rect.touch",
      { x: place * step, width: step, y: 0, height: TALL },
      svg("title", `${new Date(bucket.t * 1000).toLocaleString()}\n${told.join("\n")}`),
    );
  });
}

/**
 * Names with figures, the largest first, each with a bar and a link to its streams: `filters(name)`
 * are those of the link, `unit` writes a figure, `look` is the colour.
 */
export function ranks(title, figures, filters, { unit = count, look = "a", names = {}, shown = 12 } = {}) {
  const pairs = Object.entries(figures ?? {})
    .filter(([, value]) => Number.isFinite(value))
    .sort((a, b) => b[1] - a[1]);
  const most = Math.max(1e-12, ...pairs.map(([, value]) => value));
  const bar = (value) =>
    svg(
      "svg",
      { viewBox: "0 0 100 8", preserveAspectRatio: "none", class: "rank", "aria-hidden": "true" },
      svg(`rect.bar.${look}`, { width: (value / most) * 100, height: 8, rx: 1 }),
    );
  const line = ([name, value]) =>
    h(
      "li",
      h("a", { href: `#/streams?${new URLSearchParams(filters(name))}`, text: names[name] ?? name }),
      bar(value),
      h("span.figure", unit(value)),
    );
  return h(
    "figure.figure-box",
    h("figcaption", h("b", title), pairs.length ? null : h("span.quiet", "no data")),
    pairs.length ? h("ol.ranks", pairs.slice(0, shown).map(line)) : null,
    pairs.length > shown && h("p.quiet", `and ${pairs.length - shown} more`),
  );
}
