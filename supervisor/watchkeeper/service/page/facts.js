// Facts in words: of each event who it is about, a title, a text, and a tone. Pure.
import { amount, dimensionName, duration, oneLine, plural, whole } from "./format.js";

// What is shown only with details.
export const DETAILS = new Set([
  "model_first_chunk", "model_streamed", "call_proposed", "call_admitted", "held", "settled", "evidence", "turn_started",
]);

const amounts = (of) => Object.entries(of || {}).map(([name, n]) => `${amount(name, n)} ${dimensionName(name)}`).join(", ");
const KIND_TONES = { finished: "", failed: "bad", timed_out: "bad", abandoned: "bad", refused: "warn", denied: "warn", cancelled: "warn", not_run: "warn" };
const line = (text) => oneLine(text, 400);

const WORDS = {
  run_started: (e) => ["run", "Started", `${e.agent}${e.model ? ` on ${e.model}` : ""}`],
  run_ending: (e) => ["run", "Ending", `${e.status}: ${e.reason}`],
  run_ended: (e) => ["run", "Ended", e.outcome?.message, e.outcome?.status === "completed" ? "good" : "warn"],
  user_message: (e) => ["person", e.source === "steer" ? "Steered" : "Task", e.text],
  turn_started: (e) => ["run", `Turn ${e.turn}`, e.left == null ? "" : `${plural(e.left, "turn")} left`],
  model_requested: (e) => ["model", "Asked", `${e.model}, ${plural(e.messages || 0, "message")}, about ${whole(e.input_estimate || 0)} tokens`],
  model_first_chunk: (e) => ["model", "First words", `after ${duration(e.seconds)}`],
  model_streamed: (e) => ["model", e.channel === "reasoning" ? "Thinks" : "Says", e.text],
  model_replied: (e) => ["model", "Replied", [e.text, e.calls?.length && `→ ${e.calls.map((call) => call.tool).join(", ")}`].filter(Boolean).join(" ")],
  model_retried: (e) => ["model", "Tries again", `${e.error}, in ${duration(e.wait)}`, "warn"],
  model_partial_dropped: (e) => ["model", "Dropped a cut-off reply", plural(e.characters, "character"), "warn"],
  model_failed: (e) => ["model", "Failed", `${e.error}: ${e.detail}`, "bad"],
  call_proposed: (e) => ["tools", e.tool, `proposed ${e.arguments}`],
  call_admitted: (e) => ["tools", e.tool, "admitted"],
  call_replaced: (e) => ["tools", e.tool, `replaced by ${e.by}${e.instead ? ` with ${e.instead}` : ""}: ${e.why || ""}`, "warn"],
  call_started: (e) => ["tools", e.tool, `started${e.attempt > 1 ? `, attempt ${e.attempt}` : ""}${e.given ? `: ${e.given}` : ""}`],
  call_ended: (e) => ["tools", e.result.tool, `${e.result.kind}${e.result.error ? ` (${e.result.error})` : ""} after ${duration(e.ran || 0)}: ${e.result.content}`, KIND_TONES[e.result.kind]],
  approval_requested: (e) => ["person", "Needs approval", `${e.tool || "the answer"}: ${e.why || ""}`, "warn"],
  approval_resolved: (e) => ["person", { denied: "Denied", timed_out: "No answer in time", cancelled: "Not answered" }[e.how] || "Approved", `${e.tool || "the answer"}${e.by ? ` by ${e.by}` : ""}${e.reason ? `: ${e.reason}` : ""}`],
  would_refuse: (e) => ["watchdog", "Would have", `${e.would}: ${e.text || e.by}`],
  guard_overran: (e) => ["watchdog", "Guard too slow", `${e.by}: ${duration(e.seconds)}`, "warn"],
  finding_made: (e) => ["watchdog", "Finding", `${e.finding.detector}: ${e.finding.pattern}, ${e.finding.count} times`, "warn"],
  nudged: (e) => ["watchdog", "Nudged", e.text, "warn"],
  reminded: (e) => ["watchdog", "Reminded", e.text],
  pushed_back: (e) => ["watchdog", "Pushed back", e.text, "warn"],
  opinion_asked: (e) => ["watchdog", `Asked the ${e.by}`, e.model || ""],
  opinion_given: (e) => ["watchdog", `The ${e.by} says`, `${e.decision}${e.why ? `: ${e.why}` : ""}`],
  blocked: (e) => ["watchdog", "Blocked a call", `by ${e.by}`, "warn"],
  stopped: (e) => ["watchdog", "Stopped", e.verdict?.message, "bad"],
  paused: (e) => ["watchdog", "Paused", e.reason, "warn"],
  resumed: (e) => ["person", "Resumed", e.reason || ""],
  cancel_requested: (e) => ["person", "Cancel requested", `${e.mode}: ${e.reason}`, "warn"],
  cancel_confirmed: (e) => ["run", "Cancel confirmed", `after ${duration(e.seconds)}${e.abandoned?.length ? `, left behind: ${e.abandoned.join(", ")}` : ""}`],
  held: (e) => ["run", "Held", amounts(e.amounts)],
  settled: (e) => ["run", "Settled", amounts(e.amounts)],
  overrun: (e) => ["run", "Overrun", `${dimensionName(e.dimension)} by ${amount(e.dimension, e.over)}`, "bad"],
  evidence: (e) => ["tools", "Evidence", e.calls.join(", ")],
  detector_failed: (e) => ["watchdog", "Detector failed", `${e.detector}: ${e.error}`, "bad"],
  context_compacted: (e) => ["model", "Conversation shortened", `${whole(e.before)} to ${whole(e.after)} tokens`],
  child_started: (e) => ["run", "Sub-agent started", `${e.agent}: ${e.task || ""}`],
  child_ended: (e) => ["run", "Sub-agent ended", `${e.child}: ${e.status} (${e.reason})`],
  planned: (e) => ["model", "Planned", plural(e.steps?.length || 0, "step")],
  step_started: (e) => ["model", `Step ${e.number} of ${e.of}`, e.goal],
  step_ended: (e) => ["model", `Step ${e.number} ended`, e.finding || e.ended],
  loop_blocked: (e) => ["watchdog", "Loop was blocked", `${duration(e.seconds)} in ${e.frame}`, "bad"],
  gap: (e) => ["run", "Not kept", `facts ${e.first} to ${e.last} were deleted`, "warn"],
};

// {lane, title, text, tone}; an event of a later version, or one that is malformed, is shown by its type.
export function describe(event) {
  let found;
  try {
    found = WORDS[event.type]?.(event);
  } catch {
    found = null;
  }
  const [lane, title, text, tone] = found || ["run", String(event.type).replaceAll("_", " "), ""];
  return { lane, title: line(title), text: line(text), tone: tone || "" };
}

export const callOf = (event) => event.call_id || event.result?.call_id || "";

// Findings with what was made of them, newest first: {n, t, finding, actions, earlier}. Of one episode (a detector that
// sees the same thing go on) the last one stands for all; `earlier` says how many there were before.
export function findingsIn(events) {
  const found = new Map();
  for (const event of events) {
    if (event.type === "finding_made") found.set(event.n, { n: event.n, t: event.t, turn: event.turn || 0, finding: { calls: [], ...event.finding }, actions: [] });
    else if (event.cause && found.has(event.cause)) found.get(event.cause).actions.push({ type: event.type, text: event.text || event.verdict?.message || "" });
  }
  const episodes = new Map();
  for (const one of found.values()) {
    const { detector, subject, pattern, onset } = one.finding;
    const key = JSON.stringify([detector, subject ?? pattern, onset]);
    const before = episodes.get(key);
    episodes.delete(key);
    episodes.set(key, { ...one, earlier: before ? before.earlier + 1 : 0 });
  }
  return [...episodes.values()].reverse();
}

// The conversation: messages in order, each call with its result.
export function conversation(events) {
  const items = [];
  const calls = new Map();
  for (const e of events) {
    if (e.type === "user_message") items.push({ n: e.n, who: "user", text: e.text });
    else if (e.type === "model_replied" && e.stored !== false) {
      const item = { n: e.n, who: "model", turn: e.turn || 0, text: e.text, reasoning: e.reasoning || "", calls: [] };
      for (const call of e.calls || []) {
        const one = { ...call, result: null };
        calls.set(call.id, one);
        item.calls.push(one);
      }
      items.push(item);
    } else if (e.type === "call_ended") {
      const call = calls.get(e.result.call_id);
      if (call) call.result = e.result;
    } else if (e.type === "nudged" || e.type === "pushed_back" || e.type === "reminded") items.push({ n: e.n, who: "watchdog", text: e.text });
  }
  return items;
}
