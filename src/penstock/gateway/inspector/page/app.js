/**
 * The page's frame: which view is shown, light or dark, and the keys that work everywhere.
 *
 * A view is a function of its place (`main`), what stands behind its name in the address, and a
 * signal that is aborted when the view is left. It may give keys of its own.
 */

import { about, keepKey } from "./api.js";
import { button, dialog, fill, h } from "./dom.js";
import { chat } from "./chat.js";
import { overview } from "./overview.js";
import { playground } from "./playground.js";
import { stream } from "./stream.js";
import { streams } from "./streams.js";

const VIEWS = { streams, playground, chat, overview };
const THEMES = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" };
const HINTS = {
  401: "This gateway asks for a key: try again, and give one.",
  403: "The key that was given may not do this.",
  404: "It may be too old for the log, or have been asked for with another key.",
};
const KEYS = [
  ["1 – 4", "go to Streams, Playground, Chat, Overview"],
  ["j / k", "next or previous row of the list"],
  ["Enter", "open the current row"],
  ["Esc", "back to the list, or close what is open"],
  ["/", "search"],
  ["← / →", "one step back or on, with Shift ten"],
  ["Space", "play the stream as it came, or pause"],
  ["?", "these keys"],
];

const main = document.getElementById("view");
let left = new AbortController();
let keys = {};

/** Show what the address names. */
async function route() {
  const [, name = "", rest = ""] = /^#\/([a-z]*)(?:[/?](.*))?$/su.exec(location.hash) ?? [];
  const view = name === "streams" && rest && !location.hash.includes("?") ? stream : VIEWS[name];
  if (!Object.hasOwn(VIEWS, name)) {
    location.replace("#/streams");
    return;
  }
  left.abort();
  left = new AbortController();
  keys = {};
  for (const box of document.querySelectorAll("dialog[open]")) box.close();
  for (const link of document.querySelectorAll("#places a")) {
    if (link.hash === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${name[0].toUpperCase()}${name.slice(1)} · Penstock inspector`;
  main.className = view === stream ? "one" : name;
  const { signal } = left;
  try {
    const given = await view(main, rest, signal);
    if (signal.aborted) return;
    keys = given ?? {};
    if (document.activeElement === document.body) main.focus({ preventScroll: true });
  } catch (error) {
    if (!signal.aborted) fill(main, problem(error));
  }
}

/** Say what went wrong, and what may help. */
function problem(error) {
  const { isOff, status } = error;
  const hint = isOff
    ? "Streams are shown from the log. Switch it on with [store] in penstock.toml; the playground and the chat work without it."
    : (HINTS[status] ??
      (status ? "This is what the gateway says." : "Is the gateway there? Nobody answers at this address."));
  return h(
    "section.empty",
    { role: "alert" },
    h("h1", isOff ? "The log is switched off" : "That did not work"),
    h("p", { text: error.message }),
    h("p.quiet", hint),
    h("p", button("Try again", route)),
  );
}

function help() {
  const lines = KEYS.map(([key, words]) => [h("dt", h("kbd", key)), h("dd", words)]);
  dialog("Keys", h("dl.keys", lines));
}

function isTyping(target) {
  return target.matches?.(
    "input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable]",
  );
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape" && isTyping(event.target)) event.target.blur();
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const place = Object.keys(VIEWS)[Number(event.key) - 1];
  if (place && event.key.length === 1) location.hash = `#/${place}`;
  else if (event.key === "?") help();
  else if (
    keys[event.key] &&
    !(event.key === "Enter" && event.target.closest("button, a, [role=tab]")) &&
    !(event.key === " " && event.target.closest("button, a, [role=tab]"))
  )
    keys[event.key](event);
  else return;
  event.preventDefault();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = THEMES[theme];
  button.setAttribute("aria-label", `Colours: ${theme}`);
  localStorage.setItem("penstock.theme", theme);
}

function nextTheme() {
  const all = Object.keys(THEMES);
  setTheme(all[(all.indexOf(document.documentElement.dataset.theme) + 1) % all.length]);
}

const kept = localStorage.getItem("penstock.theme");
setTheme(Object.hasOwn(THEMES, kept) ? kept : "auto");
keepKey();
document.getElementById("forget").addEventListener("click", () => {
  keepKey("");
  location.reload();
});
document.getElementById("theme").addEventListener("click", nextTheme);
document.getElementById("keys").addEventListener("click", help);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.addEventListener("keydown", press);
window.addEventListener("hashchange", route);
about().then(
  ({ version }) => (document.getElementById("version").textContent = `v${version}`),
  () => {},
);
route();
