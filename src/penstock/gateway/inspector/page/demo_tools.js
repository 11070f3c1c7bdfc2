/**
 * The tools of the chat, which the page runs itself: a clock, a calculator, and invented weather.
 */

const MAX_EXPRESSION = 200;
const MAX_DEPTH = 30;

const object = (properties, required = Object.keys(properties)) => ({ type: "object", properties, required });

/** The tools as they are sent in a request. */
export const TOOLS = [
  {
    name: "clock",
    description: "Return the time in a time zone such as Europe/Oslo",
    parameters: object({ timezone: { type: "string" } }, []),
  },
  {
    name: "calculator",
    description: "Evaluate an expression with + - * / ^ and parentheses",
    parameters: object({ expression: { type: "string" } }),
  },
  {
    name: "get_weather",
    description: "Return the weather in a city",
    parameters: object({ city: { type: "string" } }),
  },
].map((one) => ({ type: "function", function: one }));

/** Whether the page can run the tool. */
export const isKnown = (name) => TOOLS.some((one) => one.function.name === name);

/** Run the call `name` with arguments as JSON text. Never throws: models write anything. */
export function answer(name, text) {
  try {
    const given = JSON.parse(text || "{}") ?? {};
    if (name === "clock") return clock(given.timezone);
    if (name === "calculator") return String(calculate(String(given.expression ?? "")));
    if (name === "get_weather") return weather(String(given.city ?? ""));
    return `error: unknown tool ${String(name).slice(0, 80)}`;
  } catch (error) {
    return `error: ${error.message}`;
  }
}

function clock(zone) {
  const timeZone = typeof zone === "string" && zone ? zone : undefined;
  return new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "long", timeZone }).format(
    new Date(),
  );
}

function weather(city) {
  const sum = [...city].reduce((total, one) => total + one.codePointAt(0), 0);
  const sky = ["clear", "cloudy", "light rain", "snow", "fog"][sum % 5];
  return JSON.stringify({
    city: city.slice(0, 80),
    sky,
    celsius: (sum % 35) - 5,
    source: "invented by this page",
  });
}

/** Evaluate by recursive descent: sums of products of powers of numbers and parentheses. */
export function calculate(expression) {
  if (expression.length > MAX_EXPRESSION) throw new Error("the expression is too long");
  const tokens = expression.match(/\d+(?:\.\d+)?(?:e[+-]?\d+)?|\.\d+|[-+*/^%()]|\S/giu) ?? [];
  let [at, depth] = [0, 0];
  const take = (...wanted) => (wanted.includes(tokens[at]) ? tokens[at++] : null);

  function sum() {
    let value = product();
    for (let sign = take("+", "-"); sign; sign = take("+", "-"))
      value = sign === "+" ? value + product() : value - product();
    return value;
  }
  function product() {
    let value = signed();
    for (let sign = take("*", "/", "%"); sign; sign = take("*", "/", "%")) {
      const right = signed();
      value = sign === "*" ? value * right : sign === "/" ? value / right : value % right;
    }
    return value;
  }
  function signed() {
    if ((depth += 1) > MAX_DEPTH) throw new Error("the expression is nested too deeply");
    const value = take("-") ? -signed() : take("+") ? signed() : power();
    depth -= 1;
    return value;
  }
  function power() {
    const value = atom();
    return take("^") ? value ** signed() : value;
  }
  function atom() {
    if (take("(")) {
      const value = sum();
      if (!take(")")) throw new Error("a parenthesis is not closed");
      return value;
    }
    const token = tokens[at++] ?? "the end";
    if (!/^[\d.]/u.test(token)) throw new Error(`expected a number before ${token}`);
    return Number(token);
  }

  const value = sum();
  if (at < tokens.length) throw new Error(`unexpected ${tokens[at]}`);
  return value;
}
