// How runs stand: what the list shows of them, which it shows, and in which order. Pure.

const EMPTY = {
  state: "queued", parent: "", root: "", attempt: 0, worker: "", submitted: 0, started: null, ended: null, n: 0, turn: 0,
  calls: 0, doing: "", progress: null, spent: {}, limits: {}, approvals: 0, findings: 0, outcome: null,
};

// The service leaves out what has its default.
export function normal(status) {
  const spec = { agent: "", task: "", labels: {}, ...status.spec };
  const run = { ...EMPTY, ...status, spec };
  run.kind = kind(run);
  return run;
}

// The state as people see it: how it ended, and who is waited for.
function kind(run) {
  if (run.state === "ended") return run.outcome?.status || "completed";
  if (run.approvals > 0 && (run.state === "running" || run.state === "pausing")) return "waiting";
  return run.state;
}

export const KINDS = {
  waiting: "Needs approval",
  running: "Running",
  pausing: "Pausing",
  paused: "Paused",
  queued: "Queued",
  cancelling: "Cancelling",
  ending: "Ending",
  completed: "Completed",
  stopped: "Stopped",
  cancelled: "Cancelled",
  failed: "Failed",
  handed_over: "Handed over",
};
export const kindName = (of) => KINDS[of] || of;

// The tabs above the list.
export const GROUPS = [
  ["all", "All", () => true],
  ["live", "Live", (run) => run.state !== "ended"],
  ["you", "Needs you", (run) => run.kind === "waiting" || run.kind === "paused"],
  ["ended", "Ended", (run) => run.state === "ended"],
  ["trouble", "Trouble", (run) => run.kind === "failed" || run.kind === "stopped" || (run.findings > 0 && run.state !== "ended")],
];

export const isLive = (run) => run.state !== "ended";

// The dimension of which most is spent, of those that have a limit: {dimension, spent, limit, share}.
export function tightest(run) {
  let found = null;
  for (const [dimension, limit] of Object.entries(run.limits)) {
    if (!limit || dimension === "turns") continue;
    const spent = run.spent[dimension] ?? 0;
    const share = spent / limit;
    if (!found || share > found.share) found = { dimension, spent, limit, share };
  }
  return found;
}

const TIGHT = 0.8;

// Money if it is limited or spent, unless another dimension is nearly used up; else the tightest one.
export function spend(run) {
  const least = tightest(run);
  if (least?.share >= TIGHT) return least;
  const limit = run.limits.money;
  if (limit) return { dimension: "money", spent: run.spent.money ?? 0, limit, share: (run.spent.money ?? 0) / limit };
  if (run.spent.money) return { dimension: "money", spent: run.spent.money, limit: null, share: null };
  return least;
}

export const tokens = (run) => run.spent.tokens ?? (run.spent.input_tokens ?? 0) + (run.spent.output_tokens ?? 0);

// When something came of it last; of a run that has none yet, its start.
export const since = (run) => run.progress ?? run.started ?? run.submitted;

// A query is words, of which all must fit: text anywhere, or agent:, state:, worker:, id: and label key=value.
export function matcher(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  return (run) => words.every((word) => fits(run, word));
}

function fits(run, word) {
  const [, field, wanted] = /^(agent|state|worker|id):(.*)$/.exec(word) || [];
  if (field === "agent") return run.spec.agent.toLowerCase().includes(wanted);
  if (field === "state") return run.state.startsWith(wanted) || run.kind.startsWith(wanted);
  if (field === "worker") return run.worker.toLowerCase().startsWith(wanted);
  if (field === "id") return run.run.toLowerCase().startsWith(wanted);
  const labels = Object.entries(run.spec.labels);
  return (
    run.run.toLowerCase().startsWith(word) ||
    run.spec.agent.toLowerCase().includes(word) ||
    run.spec.task.toLowerCase().includes(word) ||
    run.kind.startsWith(word) ||
    labels.some(([key, value]) => `${key}=${value}`.toLowerCase().includes(word))
  );
}

export const ORDERS = {
  newest: (a, b) => b.submitted - a.submitted || (a.run < b.run ? 1 : -1),
  turns: (a, b) => b.turn - a.turn,
  tokens: (a, b) => tokens(b) - tokens(a),
  spend: (a, b) => (spend(b)?.share ?? spend(b)?.spent ?? -1) - (spend(a)?.share ?? spend(a)?.spent ?? -1),
  // The live one that has waited longest for progress comes first; what has ended comes last.
  progress: (a, b) => isLive(b) - isLive(a) || since(a) - since(b),
};

export function listed(all, { group, query, order }) {
  const inGroup = (GROUPS.find(([name]) => name === group) || GROUPS[0])[2];
  const fitting = matcher(query);
  const found = [];
  for (const run of all) if (!run.parent && inGroup(run) && (!fitting || fitting(run))) found.push(run);
  const by = ORDERS[order] || ORDERS.newest;
  return found.sort((a, b) => by(a, b) || ORDERS.newest(a, b));
}

export function counted(all) {
  const counts = Object.fromEntries(GROUPS.map(([name]) => [name, 0]));
  for (const run of all) {
    if (run.parent) continue;
    for (const [name, , holds] of GROUPS) if (holds(run)) counts[name] += 1;
  }
  return counts;
}
