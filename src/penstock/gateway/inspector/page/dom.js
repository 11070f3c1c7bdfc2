/**
 * Elements, made by hand: no markup is ever parsed on this page.
 *
 * What a model wrote is hostile. It reaches the page as text nodes only, and `written` shows those
 * characters that would hide or reorder others (controls, bidi marks, zero widths) as badges.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. The names in `given` are ours; a value may be anyone's. */
export function h(tag, given = {}, ...inside) {
  return dressed(document.createElement(tag), given, inside);
}

/** Make an element of a drawing. */
export function svg(tag, given = {}, ...inside) {
  return dressed(document.createElementNS(SVG, tag), given, inside);
}

function dressed(element, given, inside) {
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, f] of Object.entries(value)) element.addEventListener(event, f);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "text") element.append(written(String(value)));
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...inside.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return element;
}

/** Put new children in the place of the old ones. */
export function fill(element, ...inside) {
  element.replaceChildren(...inside.flat().filter(Boolean));
  return element;
}

const UNSEEN = new RegExp(
  "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180e" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0e\\ufeff\\uffa0\\ufff9-\\ufffb]" +
    "|[\\u{e0000}-\\u{e0fff}]|[\\ud800-\\udfff]",
  "gu",
);
const NAMES = {
  0x00: "NUL",
  0x07: "BEL",
  0x08: "BS",
  0x0d: "CR",
  0x1b: "ESC",
  0x7f: "DEL",
  0xad: "SHY",
  0x061c: "ALM",
  0x200b: "ZWSP",
  0x200c: "ZWNJ",
  0x200d: "ZWJ",
  0x200e: "LRM",
  0x200f: "RLM",
  0x2028: "LSEP",
  0x2029: "PSEP",
  0x202a: "LRE",
  0x202b: "RLE",
  0x202c: "PDF",
  0x202d: "LRO",
  0x202e: "RLO",
  0x2060: "WJ",
  0x2066: "LRI",
  0x2067: "RLI",
  0x2068: "FSI",
  0x2069: "PDI",
  0xfeff: "BOM",
};

/** Give `text` as nodes, each character that cannot be seen as a badge with its name. */
export function written(text) {
  const nodes = document.createDocumentFragment();
  let at = 0;
  for (const found of text.matchAll(UNSEEN)) {
    if (found.index > at) nodes.append(text.slice(at, found.index));
    nodes.append(badge(found[0].codePointAt(0)));
    at = found.index + found[0].length;
  }
  if (at < text.length) nodes.append(at ? text.slice(at) : text);
  return nodes;
}

function badge(code) {
  const number = `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
  const element = document.createElement("span");
  element.className = "unseen";
  element.title = number;
  element.textContent = NAMES[code] ?? number;
  return element;
}

/** Give the beginning of `text` on one line, for places where there is room for no more. */
export function brief(text, most = 160) {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

/** Say something to those who see the page and to those who hear it. */
export function say(words) {
  const place = document.getElementById("said");
  place.textContent = words;
  place.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => place.classList.remove("shown"), 3500);
}

/** Open a dialog with `inside`; it is gone from the page once it is closed. */
export function dialog(title, ...inside) {
  const close = h(
    "button",
    { type: "button", class: "plain", "aria-label": "Close", on: { click: () => box.close() } },
    "✕",
  );
  const box = h(
    "dialog",
    { "aria-label": title },
    h("header", {}, h("h2", { text: title }), close),
    ...inside,
  );
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

/** Copy `text`, by hand where the browser does not let a page do it. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    const area = h("textarea", { rows: 8, readonly: true, "aria-label": what, value: text });
    dialog(`Copy ${what}`, h("p", {}, "This browser copies by hand only: the text is marked."), area);
    area.select();
  }
}

/** Let the browser save `text` as a file. */
export function download(name, text, kind = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A labelled field: what is asked for, and where it is answered. */
export function field(label, control, hint) {
  return h(
    "label",
    { class: "field" },
    h("span", { class: "label" }, label),
    control,
    hint && h("span", { class: "hint" }, hint),
  );
}

/** A choice of `options`: strings, or pairs of a value and its words. */
export function select(options, value, change, label) {
  const element = h("select", { "aria-label": label, on: { change: () => change?.(element.value) } });
  offer(element, options, value);
  return element;
}

/** Put other options into a choice; what was chosen stays chosen. */
export function offer(element, options, value = element.value) {
  const pairs = options.map((one) => (Array.isArray(one) ? one : [one, one]));
  fill(
    element,
    pairs.map(([key, words]) => h("option", { value: key, text: words })),
  );
  element.value = pairs.some(([key]) => key === value) ? value : (pairs[0]?.[0] ?? "");
}
