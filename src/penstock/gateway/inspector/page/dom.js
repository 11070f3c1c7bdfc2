/**
 * Elements, made by hand: no markup is ever parsed on this page.
 *
 * What a model wrote is hostile. It reaches the page as text nodes only, and `written` shows those
 * characters that would hide or reorder others (controls, bidi marks, zero widths) as badges.
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Make an element: `tag` is its name with its classes behind dots; then what is given to it, if
 * anything is, and what is inside. The names of what is given are ours; a value may be anyone's.
 */
export function h(tag, ...inside) {
  const [name, ...looks] = tag.split(".");
  return dressed(document.createElement(name), looks, inside);
}

/** Make an element of a drawing. */
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

/** Those of `inside` that are something, out of however many lists. */
const nodes = (inside) => inside.flat(Infinity).filter((one) => one != null && one !== false);

/** A button that does `act`. */
export function button(words, act, given = {}) {
  return h("button", { type: "button", ...given, on: { click: act } }, words);
}

/** A place that scrolls by itself, also with the keys. */
export function group(label, look, ...inside) {
  return h("div", { class: `scroll ${look}`, tabindex: 0, role: "group", "aria-label": label }, inside);
}

/** A button that closes something. */
export const closing = (act) => button("✕", act, { class: "plain", "aria-label": "Close" });

/** Put new children in the place of the old ones. */
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
  const hex = code.toString(16);
  const number = `U+${hex.toUpperCase().padStart(4, "0")}`;
  const element = document.createElement("span");
  element.className = "unseen";
  element.title = number;
  element.textContent = NAMES[hex] ?? number;
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

/** Copy `text`, by hand where the browser does not let a page do it. */
export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say(`${what} copied`);
  } catch {
    const area = h("textarea", { rows: 8, readonly: true, "aria-label": what, value: text });
    dialog(`Copy ${what}`, h("p", "This browser copies by hand only: the text is marked."), area);
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
  return h("label.field", h("span.label", label), control, hint && h("span.hint", hint));
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
