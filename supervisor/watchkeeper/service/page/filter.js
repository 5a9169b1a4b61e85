// Which runs are cancelled together: a filter as the service knows it, made of the one that the list has. Pure.
import { GROUPS, isLive, matcher } from "./runs.js";

const MOST = 200; // Agents and labels to choose from.
export const STATES = ["running", "queued", "pausing", "paused", "cancelling", "ending"];

// What may be cancelled: a run that has a parent ends with it.
export const cancellable = (all) => [...all].filter((run) => isLive(run) && !run.parent);

// Agent, state and labels where the list's words name one exactly. What only the page understands stays in `words` and
// `group`, for which the runs are named one by one.
export function filterOf(query, group, all) {
  const runs = cancellable(all);
  const found = { agent: "", state: "", labels: {}, words: [], group: group === "all" || group === "live" ? "" : group };
  for (const word of query.split(/\s+/).filter(Boolean)) if (!take(found, word.toLowerCase(), runs)) found.words.push(word);
  return found;
}

function take(found, word, runs) {
  const [, field, wanted] = /^(agent|state):(.+)$/.exec(word) || [];
  if (field === "agent") {
    const names = [...new Set(runs.map((run) => run.spec.agent))].filter((name) => name.toLowerCase().includes(wanted));
    if (names.length !== 1 || (found.agent && found.agent !== names[0])) return false;
    found.agent = names[0];
    return true;
  }
  if (field === "state") {
    const states = [...STATES, "waiting"].filter((state) => state.startsWith(wanted));
    if (states.length !== 1 || !STATES.includes(states[0]) || found.state) return false;
    found.state = states[0];
    return true;
  }
  const fitting = runs.filter(matcher(word));
  const said = Object.entries(fitting[0]?.spec.labels ?? {}).find(([key, value]) => `${key}=${value}`.toLowerCase() === word);
  if (!said || said[0] in found.labels || !fitting.every((run) => run.spec.labels[said[0]] === said[1])) return false;
  found.labels[said[0]] = said[1];
  return true;
}

export const fitsAll = ({ agent, state, labels, words, group }) =>
  !(agent || state || words.length || group || Object.keys(labels).length);

// The service's filter.
export function asked({ agent, state, labels, words, group }, all) {
  const found = {};
  if (agent) found.agent = agent;
  if (state) found.states = [state];
  if (Object.keys(labels).length) found.labels = labels;
  if (words.length || group) {
    const fits = matcher(words.join(" ")) ?? (() => true);
    const inGroup = GROUPS.find(([name]) => name === group)?.[2] ?? (() => true);
    found.runs = cancellable(all).filter((run) => inGroup(run) && fits(run)).map((run) => run.run);
  }
  return found;
}

// What there is to choose from: agents, states and labels of the runs that may be cancelled.
export function choices(all) {
  const agents = new Set();
  const states = new Set();
  const labels = new Map();
  for (const run of cancellable(all)) {
    agents.add(run.spec.agent);
    states.add(run.state);
    for (const [key, value] of Object.entries(run.spec.labels)) labels.set(`${key}=${value}`, [key, value]);
  }
  const labelled = [...labels.keys()].sort().slice(0, MOST);
  return {
    agents: [...agents].sort().slice(0, MOST),
    states: STATES.filter((state) => states.has(state)),
    labels: labelled.map((text) => [text, ...labels.get(text)]),
  };
}
