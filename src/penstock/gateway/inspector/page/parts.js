/**
 * A worker that reads JSON of many megabytes, and hands it over in parts.
 *
 * Parsing it, or taking all of it at once, would stop the page. So long lists and texts are cut out
 * of the value, which is given first, and follow piece by piece, each a task of its own.
 */

/** How many items of a list go over at a time. */
const PART = 1000;

/** How many characters of a text go over at a time. */
const PIECE = 1_000_000;

self.addEventListener("message", ({ data }) => {
  try {
    const long = [];
    const value = emptied(JSON.parse(new TextDecoder().decode(data)), [], long);
    self.postMessage({ value });
    for (const [path, one] of long) {
      const size = typeof one === "string" ? PIECE : PART;
      for (let at = 0; at < one.length; at += size)
        self.postMessage({ path, part: one.slice(at, at + size) });
    }
    self.postMessage({ done: true });
  } catch (error) {
    self.postMessage({ error: error.message });
  }
});

/** Give `value` with its long lists and texts empty; they are put into `long` with the way to them. */
function emptied(value, path, long) {
  if (Array.isArray(value) && value.length > PART) {
    long.push([path, value]);
    return [];
  }
  if (typeof value === "string" && value.length > PIECE) {
    long.push([path, value]);
    return "";
  }
  if (value && typeof value === "object" && !Array.isArray(value) && path.length < 2) {
    for (const key of Object.keys(value)) value[key] = emptied(value[key], [...path, key], long);
  }
  return value;
}
