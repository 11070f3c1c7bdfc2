/**
 * Work in slices: the page never does more at once than a person notices.
 */

/** How long a slice lasts, in milliseconds: half a frame. */
const SLICE = 8;

/** Let the browser paint, and hear its user, before the work goes on. */
export const pause = globalThis.scheduler?.yield ? () => globalThis.scheduler.yield() : () => wait(0);

/** Let some milliseconds pass. */
export const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Call `work` for each number below `count`, in slices, until `isOver` between two of them. */
export async function inSlices(count, work, isOver) {
  let until = performance.now() + SLICE;
  for (let at = 0; at < count; at += 1) {
    work(at);
    if (at % 64 === 63 && performance.now() > until) {
      await pause();
      if (isOver()) return;
      until = performance.now() + SLICE;
    }
  }
}

/** Give a function that calls `work` once, `time` milliseconds after it was last called. */
export function later(time, work) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), time);
  };
}

/** Give a function that calls `work` at most once a frame. */
export function eachFrame(work) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      work();
    });
  };
}

/** The number of leading items of `count` for which `is` holds; it holds for no later one. */
export function countWhile(count, is) {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
