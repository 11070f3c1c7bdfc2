/**
 * Tabs: one panel of several is visible; a panel is made when it is first opened.
 */

import { fill, h } from "./dom.js";

let made = 0;

/** Make tabs of `panels`: `[name, make, badge?]`. Returns the element, and `open(name)`. */
export function tabs(label, panels, opened) {
  made += 1;
  const id = (at, what) => `tabs-${made}-${what}-${at}`;
  const shown = new Map();
  const heads = panels.map(([name, , badge], at) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: id(at, "tab"),
        "aria-controls": id(at, "panel"),
        on: { click: () => open(name) },
      },
      name,
      badge !== undefined && h("span.badge", badge),
    ),
  );
  const bodies = panels.map(([name], at) =>
    h("div.panel", { role: "tabpanel", id: id(at, "panel"), "aria-label": name, hidden: true }),
  );
  const list = h("div.tabs", { role: "tablist", "aria-label": label, on: { keydown: turn } }, heads);
  const element = h("div.tabbed", list, bodies);

  function open(name) {
    panels.forEach(([one, make], at) => {
      const isOpen = one === name;
      heads[at].setAttribute("aria-selected", isOpen);
      heads[at].tabIndex = isOpen ? 0 : -1;
      bodies[at].hidden = !isOpen;
      if (isOpen && !shown.has(one)) {
        shown.set(one, true);
        fill(bodies[at], make());
      }
    });
    tab.opened = name;
    tab.change?.(name);
  }

  function turn(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = (heads.indexOf(document.activeElement) + step + heads.length) % heads.length;
    heads[at].focus();
    open(panels[at][0]);
    event.preventDefault();
    event.stopPropagation();
  }

  /** Change the badge of a tab. */
  function badge(name, words) {
    const place = heads[panels.findIndex(([one]) => one === name)]?.querySelector(".badge");
    if (place) place.textContent = words;
  }

  const tab = { element, open, badge, opened: "", change: null };
  open(panels.some(([name]) => name === opened) ? opened : panels[0][0]);
  return tab;
}
