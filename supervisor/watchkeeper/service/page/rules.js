// What a profile's settings say, in the order and the words in which they are shown. Pure.

const LIMITS = [
  ["turns", "Turns", "max_turns"],
  ["calls", "Calls", "max_calls"],
  ["tokens", "Tokens", "tokens"],
  ["money", "Money", "money"],
  ["seconds", "Time", "seconds"],
  ["seconds", "Approval", "approval"],
  ["seconds", "Grace", "grace"],
  ["calls", "Side by side", "parallel"],
];

// [dimension, title, value]; null is no limit. Limits that most agents lack are left out unless they are there.
export function limitsOf(limits) {
  const found = LIMITS.map(([dimension, title, field]) => [dimension, title, limits[field] ?? null]);
  const more = [["input_tokens", "Tokens in"], ["output_tokens", "Tokens out"], ["reasoning_tokens", "Thinking"]];
  for (const [field, title] of more) if (limits[field] != null) found.push(["tokens", title, limits[field]]);
  if (limits.working_seconds != null) found.push(["seconds", "Working time", limits.working_seconds]);
  for (const [tool, n] of Object.entries(limits.calls_per_tool ?? {})) found.push(["calls", `Calls of ${tool}`, n]);
  return found;
}

const STRENGTH = { deny: 0, ask: 1, allow: 2 };

// The rules for tools, the strongest first: that is the order in which they count.
export function rulesOf({ deny = [], rules = [] }) {
  const denied = deny.map((tool) => ({ decision: "deny", tool, when: [], unless: [], why: "" }));
  return [...denied, ...rules.map((rule) => ({ ...rule, when: rule.when ?? [], unless: rule.unless ?? [] }))].sort(
    (a, b) => (STRENGTH[a.decision] ?? 3) - (STRENGTH[b.decision] ?? 3),
  );
}

export const patternOf = (pattern) =>
  Object.entries(pattern).map(([name, glob]) => `${name} is ${Array.isArray(glob) ? `[${glob.join(", ")}]` : glob}`).join(" and ");

const seconds = (n) => `${Number.isInteger(n) ? n : n.toFixed(1)} s`;

export function rateOf({ interval, calls, seconds: within = 60 }) {
  const said = [];
  if (interval != null) said.push(`${seconds(interval)} from one call to the next`);
  if (calls != null) said.push(`${calls} calls in ${seconds(within)}`);
  return said.join(", ");
}

// [name, nudge, block, stop] of the detectors that can act, ours and those of third parties as the policy sets them.
export function stepsOf(thresholds, detectors = {}) {
  const found = [];
  for (const [name, at] of Object.entries(thresholds)) {
    if (at && typeof at === "object" && [at.nudge, at.block, at.stop].some((n) => n != null)) found.push([name, at.nudge, at.block, at.stop]);
    else if (name === "breaker") found.push([name, null, null, at]);
  }
  for (const [name, at] of Object.entries(detectors)) {
    const steps = Array.isArray(at) ? at : [at?.nudge, at?.block, at?.stop];
    found.push([name, ...[0, 1, 2].map((n) => (Number.isFinite(steps[n]) ? steps[n] : null))]);
  }
  return found;
}

export const detectorName = (name) => name.replaceAll("_", " ");

const ordinal = (n) => `${n}${n % 100 > 10 && n % 100 < 14 ? "th" : (["th", "st", "nd", "rd"][n % 10] ?? "th")}`;

// [name, what it does, whether it only notes] of the guards that are set, and of those that are told to note only.
export function guardsOf(settings) {
  const { scope, judged = [], observe = [], drift } = settings;
  const { refuse_equal: equal, writers_alone: alone, thought_force: thoughts } = settings;
  const notes = (name) => observe.includes(name);
  const found = [];
  if (equal != null) found.push(["equal", `refuses the ${ordinal(equal)} proposal of an equal call`, notes("equal")]);
  for (const [kind, names] of [["reads", scope?.reads], ["writes", scope?.writes]]) {
    if (names) found.push([kind, names.length ? `only ${names.join(", ")}` : "nothing", notes("scope")]);
  }
  if (judged.length) found.push(["judge", `sees calls of ${judged.join(", ")}`, notes("judge")]);
  if (alone) found.push(["writers", "a call that writes runs alone", false]);
  if (drift != null) found.push(["drift", `the goal is told after ${drift} turns without a word of it`, false]);
  if (thoughts != null) found.push(["thoughts", `at the ${ordinal(thoughts)} near-equal one in a row its calls are not run`, false]);
  if (settings.attended) found.push(["attended", "a person is there: it is paused where it would be stopped", false]);
  if (settings.on_stop === "hand_over") found.push(["end", "what would be stopped is handed over to a person", false]);
  const told = new Set(found.map(([name]) => name));
  for (const name of observe) if (!told.has(name) && name !== "scope") found.push([name, "lets pass what it would refuse", true]);
  return found;
}
