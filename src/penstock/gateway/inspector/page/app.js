/**
 * The frame of the page: routing, theme, and global keyboard shortcuts.
 *
 * A view is a function of its element (`main`), the rest of the address after its name, and a signal
 * that is aborted when the user leaves the view. It may return shortcuts of its own.
 */

import { about, keepKey } from "./api.js";
import { button, dialog, fill, h } from "./dom.js";
import { chat } from "./chat.js";
import { conversations } from "./conversations.js";
import { overview } from "./overview.js";
import { playground } from "./playground.js";
import { stream } from "./stream.js";
import { streams } from "./streams.js";

const VIEWS = { streams, conversations, playground, chat, overview };
const THEMES = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" };
const HINTS = {
  401: "This gateway requires an API key. Try again and enter one.",
  403: "The API key does not allow this.",
  404: "The request may have been deleted from the log, or it was made with another API key.",
};
const KEYS = [
  ["1 – 5", "open Streams, Conversations, Playground, Chat, Overview"],
  ["j / k", "next or previous row"],
  ["Enter", "open the current row"],
  ["Esc", "return to the list, or close the dialog"],
  ["/", "search"],
  ["← / →", "one step back or forward; with Shift, ten"],
  ["Space", "play the stream in real time, or pause"],
  ["?", "show this list"],
];

const main = document.getElementById("view");
let left = new AbortController();
let keys = {};

/** Show the view that the address names. */
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

/** Describe an error, and what may help. */
function problem(error) {
  const { isOff, status } = error;
  const hint = isOff
    ? "Streams are read from the log. Enable it with [store] in penstock.toml. The playground and the chat work without it."
    : (HINTS[status] ??
      (status ? "This is the gateway's error message." : "Is it running?"));
  return h(
    "section.empty",
    { role: "alert" },
    h("h1", isOff ? "The log is disabled" : "Something went wrong"),
    h("p", { text: error.message }),
    h("p.quiet", hint),
    h("p", button("Try again", route)),
  );
}

function help() {
  const lines = KEYS.map(([key, words]) => [h("dt", h("kbd", key)), h("dd", words)]);
  dialog("Keyboard shortcuts", h("dl.keys", lines));
}

function isTyping(target) {
  return target.matches?.(
    "input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable]",
  );
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape" && isTyping(event.target)) {
    event.target.blur();
    if (event.target.type === "search") event.preventDefault(); // the browser would clear it
  }
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const place = Object.keys(VIEWS)[Number(event.key) - 1];
  if (place && event.key.length === 1) location.hash = `#/${place}`;
  else if (event.key === "?") help();
  else if (
    keys[event.key] &&
    !(["Enter", " "].includes(event.key) && event.target.closest("button, a, summary, [type=checkbox], [role=tab]"))
  )
    keys[event.key](event);
  else return;
  event.preventDefault();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  button.textContent = THEMES[theme];
  button.setAttribute("aria-label", `Theme: ${theme}`);
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
