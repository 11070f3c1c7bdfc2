/**
 * Work in time slices, so that the page stays responsive.
 */

/** How long a slice lasts, in milliseconds: half a frame. */
const SLICE = 8;

/** Let the browser paint and handle input before the work continues. */
export const pause = globalThis.scheduler?.yield ? () => globalThis.scheduler.yield() : () => wait(0);

/** Wait for some milliseconds. */
export const wait = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Call `work` for each number below `count`, in slices; stop between two if `isOver`. */
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

/** Return a function that calls `work` once, `time` milliseconds after its last call. */
export function later(time, work) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), time);
  };
}

/** Return a function that calls `work` at most once per frame. */
export function eachFrame(work) {
  let asked = 0;
  return () => {
    asked ||= requestAnimationFrame(() => {
      asked = 0;
      work();
    });
  };
}

/** The number of leading items of `count` for which `is` is true; it is false for all others. */
export function countWhile(count, is) {
  let [low, high] = [0, count];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (is(middle)) low = middle + 1;
    else high = middle;
  }
  return low;
}
