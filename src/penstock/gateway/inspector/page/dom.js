/**
 * Elements are made by hand: this page never parses markup.
 *
 * The output of models is hostile. It reaches the page as text nodes only, and `written` shows
 * characters that hide or reorder others (controls, bidi marks, zero widths) as badges.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element: `tag` is its name with its classes after dots; then come its properties, if any,
 * and its children. The names of properties are ours; their values may be untrusted.
 */
export function h(tag, ...inside) {
  const [name, ...looks] = tag.split(".");
  return dressed(document.createElement(name), looks, inside);
}

/** Make an SVG element. */
export function svg(tag, ...inside) {
  const [name, ...looks] = tag.split(".");
  return dressed(document.createElementNS(SVG, name), looks, inside);
}

function dressed(element, looks, inside) {
  const given = inside[0]?.constructor === Object ? inside.shift() : {};
  if (looks.length) element.setAttribute("class", looks.join(" "));
  for (const [name, value] of Object.entries(given)) {
    if (value == null || value === false) continue;
    if (name === "on") for (const [event, f] of Object.entries(value)) element.addEventListener(event, f);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "text") element.append(written(String(value)));
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(inside));
  return element;
}

/** Flatten `inside` and drop what is empty. */
const nodes = (inside) => inside.flat(Infinity).filter((one) => one != null && one !== false);

/** A button that calls `act`. */
export function button(words, act, given = {}) {
  return h("button", { type: "button", ...given, on: { click: act } }, words);
}

/** An element that scrolls, also with the keyboard. */
export function group(label, look, ...inside) {
  return h("div", { class: `scroll ${look}`, tabindex: 0, role: "group", "aria-label": label }, inside);
}

/** A close button. */
export const closing = (act) => button("✕", act, { class: "plain", "aria-label": "Close" });

/** Replace the children. */
export function fill(element, ...inside) {
  element.replaceChildren(...nodes(inside));
  return element;
}

const UNSEEN = new RegExp(
  "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180e" +
    "\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0e\\ufeff\\uffa0\\ufff9-\\ufffb]" +
    "|[\\u{e0000}-\\u{e0fff}]|[\\ud800-\\udfff]",
  "gu",
);
const NAMES = Object.fromEntries(
  (
    "0 NUL 7 BEL 8 BS d CR 1b ESC 7f DEL ad SHY 61c ALM 200b ZWSP 200c ZWNJ 200d ZWJ 200e LRM 200f RLM " +
    "2028 LSEP 2029 PSEP 202a LRE 202b RLE 202c PDF 202d LRO 202e RLO 2060 WJ 2066 LRI 2067 RLI " +
    "2068 FSI 2069 PDI feff BOM"
  )
    .match(/\S+ \S+/gu)
    .map((pair) => pair.split(" ")),
);

/** Return `text` as nodes; invisible characters are badges with their names. */
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
  const hex = code.toString(16);
  const number = `U+${hex.toUpperCase().padStart(4, "0")}`;
  const element = document.createElement("span");
  element.className = "unseen";
  element.title = number;
  element.textContent = NAMES[hex] ?? number;
  return element;
}

/** Return `text` as nodes; what is between backticks is code. */
export const coded = (text) =>
  text.split(/`([^`]+)`/u).map((piece, at) => (at % 2 ? h("code", { text: piece }) : written(piece)));

/** Return the beginning of `text` on one line. */
export function brief(text, most = 160) {
  const cut = text.length > most ? `${text.slice(0, most)}…` : text;
  return cut.replaceAll("\n", "⏎").replaceAll("\t", "⇥");
}

/** Show a short notice, also to screen readers. */
export function say(words) {
  const place = document.getElementById("said");
  place.textContent = words;
  place.classList.add("shown");
  clearTimeout(say.timer);
  say.timer = setTimeout(() => place.classList.remove("shown"), 3500);
}

/** Open a dialog with `inside`; it is removed when it is closed. */
export function dialog(title, ...inside) {
  const head = h(
    "header",
    h("h2", { text: title }),
    closing(() => box.close()),
  );
  const box = h("dialog", { "aria-label": title }, head, inside);
  box.addEventListener("close", () => box.remove());
  document.body.append(box);
  box.showModal();
  return box;
}

/** Copy `text`; if the browser forbids it, show the text to copy by hand. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    const area = h("textarea", { rows: 8, readonly: true, "aria-label": what, value: text });
    dialog(`Copy ${what}`, h("p", "The browser does not allow copying here. The text is selected: copy it with the keyboard."), area);
    area.select();
  }
}

/** Let the browser save `text` as a file. */
export function download(name, text, kind = "application/json") {
  const url = URL.createObjectURL(new Blob([text], { type: kind }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A labelled form field. */
export function field(label, control, hint) {
  return h("label.field", h("span.label", label), control, hint && h("span.hint", hint));
}

/** A select element with `options`: strings, or pairs of a value and its label. */
export function select(options, value, change, label) {
  const element = h("select", { "aria-label": label, on: { change: () => change?.(element.value) } });
  offer(element, options, value);
  return element;
}

/** Replace the options of a select element; the selection is kept. */
export function offer(element, options, value = element.value) {
  const pairs = options.map((one) => (Array.isArray(one) ? one : [one, one]));
  fill(
    element,
    pairs.map(([key, words]) => h("option", { value: key, text: words })),
  );
  element.value = pairs.some(([key]) => key === value) ? value : (pairs[0]?.[0] ?? "");
}
