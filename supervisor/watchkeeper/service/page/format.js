// Numbers, times and texts as people read them. Pure.

export function duration(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return "";
  const s = Math.max(0, seconds);
  if (s < 0.0995) return `${Math.round(s * 1000)} ms`;
  if (s < 9.95) return `${s.toFixed(1)} s`;
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(Math.floor(s % 60)).padStart(2, "0")} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} m`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

// The same in one unit, for narrow columns.
export function brief(seconds) {
  if (seconds == null || !Number.isFinite(seconds)) return "";
  const s = Math.max(0, seconds);
  if (s < 60) return `${Math.floor(s)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}

// A place on a run's clock: 1:02.4, 12:40.
export function place(t) {
  const s = Math.max(0, t || 0);
  const minutes = Math.floor(s / 60);
  const rest = (s % 60).toFixed(1).padStart(4, "0");
  if (minutes < 60) return `${minutes}:${rest}`;
  return `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest.slice(0, 2)}`;
}

export function clockTime(at) {
  return at ? new Date(at * 1000).toLocaleTimeString([], { hour12: false }) : "";
}

export function moment(at) {
  return at ? new Date(at * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "medium" }) : "";
}

export function count(n) {
  if (n == null || !Number.isFinite(n)) return "";
  if (Math.abs(n) < 10_000) return Number.isInteger(n) ? String(n) : n.toFixed(1);
  if (Math.abs(n) < 999_500) return `${Math.round(n / 1000)}k`;
  return `${(n / 1e6).toFixed(n < 9.95e6 ? 1 : 0)}M`;
}

export const whole = (n) => (Number.isFinite(n) ? Math.round(n).toLocaleString("en") : "");

export function amount(dimension, n) {
  if (n == null) return "";
  if (dimension === "money") return n !== 0 && Math.abs(n) < 0.01 ? n.toFixed(4) : n.toFixed(2);
  if (dimension === "seconds" || dimension === "working_seconds") return duration(n);
  return count(n);
}

const NAMES = {
  turns: "turns",
  calls: "calls",
  tokens: "tokens",
  input_tokens: "tokens in",
  output_tokens: "tokens out",
  money: "money",
  seconds: "time",
  working_seconds: "working time",
};
export const dimensionName = (name) => NAMES[name] || name.replace(/^calls:/, "calls of ");

export const plural = (n, one, many = `${one}s`) => `${whole(n)} ${n === 1 ? one : many}`;

// Characters that are invisible, steer, or change the order of what is read, as escapes: who decides sees what runs.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffc]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;

const escape = (found) => [...Array(found.length).keys()].map((i) => `\\u${found.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");

export const visible = (text) => String(text ?? "").replace(HIDDEN, escape);

export const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

export const oneLine = (text, most = 300) => visible(cut(String(text ?? "").replace(/\s+/g, " ").trim(), most));

// JSON text with line breaks and indents put in: no character of it is changed, unlike by parsing and writing anew.
export function indented(json) {
  let out = "";
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < json.length; i += 1) {
    const c = json[i];
    if (quoted) {
      out += c;
      if (c === "\\") out += json[(i += 1)] ?? "";
      else if (c === '"') quoted = false;
    } else if (c === '"') {
      quoted = true;
      out += c;
    } else if (c === "{" || c === "[") {
      const empty = /^\s*[}\]]/.exec(json.slice(i + 1, i + 20));
      if (empty) {
        out += c + empty[0].trim();
        i += empty[0].length;
      } else out += `${c}\n${"  ".repeat((depth += 1))}`;
    } else if (c === "}" || c === "]") {
      out += `\n${"  ".repeat((depth = Math.max(0, depth - 1)))}${c}`;
    } else if (c === ",") out += `,\n${"  ".repeat(depth)}`;
    else if (c === ":") out += ": ";
    else if (!/\s/.test(c)) out += c;
  }
  return out;
}
