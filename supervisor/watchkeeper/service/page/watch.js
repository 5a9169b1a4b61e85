// One run, watched: its facts as they come, its timeline and its tree, asked for again when there is news.
import { ask, of } from "./api.js";
import { useEffect, useRef, useState } from "./dom.js";
import { take, useRun } from "./state.js";
import { follow, whileSeen } from "./stream.js";

const KEPT = 20_000; // Facts in the page; older ones stay with the service.
const EVERY = 150; // Milliseconds between two looks at what has come in.
const MOVES = new Set(["model_requested", "model_replied", "model_failed", "call_started", "call_ended", "finding_made", "nudged", "blocked", "stopped", "paused", "resumed", "settled", "run_ended", "cancel_requested"]);

export function useWatch(id) {
  const run = useRun(id);
  const [, again] = useState(0);
  const held = useRef(null);
  held.current ||= { events: [], given: new Map(), last: 0, first: 0, line: { state: "connecting" }, timeline: null, tree: null, wrong: "" };
  const w = held.current;

  useEffect(() => {
    let gone = false;
    let due = 0;
    let asked = 0;
    let asking = false;
    const show = () => {
      due ||= setTimeout(() => {
        due = 0;
        if (!gone) again((n) => n + 1);
      }, EVERY);
    };
    // The timeline is folded by the service: at most once a second, and less often the longer that takes. What could
    // not be had is asked for again: there may be no news that would ask for it.
    let lost = false;
    const look = () => {
      if (asked || gone) return;
      const pause = w.timeline || lost ? Math.max(1000, (w.took || 0) * 10) : 0;
      asked = setTimeout(async () => {
        asked = 0;
        if (asking) {
          look();
          return;
        }
        asking = true;
        const began = performance.now();
        try {
          w.timeline = { ...(await ask(`${of(id)}/timeline`)), at: Date.now() };
          lost = false;
        } catch (problem) {
          w.wrong ||= problem.message;
          lost = problem.status === 0 || problem.status >= 500;
        }
        w.took = performance.now() - began;
        asking = false;
        if (lost) look();
        show();
      }, pause);
    };
    const branch = async () => {
      try {
        w.tree = await ask(`${of(id)}/tree`);
        show();
      } catch {
        w.tree = null; // A tree that cannot be had is not shown; the stream says what is wrong.
      }
    };
    const on = (found) => {
      let moved = false;
      let children = false;
      for (const { event, data } of found) {
        const fact = JSON.parse(data);
        if (event === "gap") fact.type = "gap";
        else if (!(fact.n > w.last)) continue; // Seen before, or a word about the stream itself.
        else w.last = fact.n;
        fact.t ??= w.events.at(-1)?.t ?? 0;
        // What a call was given stands in an earlier fact; the line that it has started shows it, too.
        if (fact.type === "call_proposed") w.given.set(fact.call_id, fact.arguments);
        else if (fact.type === "call_ended") w.given.delete(fact.result?.call_id);
        else if (fact.type === "call_started") Object.defineProperty(fact, "given", { value: w.given.get(fact.call_id) });
        w.events.push(fact);
        moved ||= MOVES.has(fact.type);
        children ||= fact.type === "child_started" || fact.type === "child_ended";
      }
      if (w.events.length > KEPT * 1.1) w.events.splice(0, w.events.length - KEPT);
      w.first = w.events[0]?.n ?? 0;
      if (moved) look();
      if (children) branch();
      show();
    };
    const begin = () => {
      let stop = () => {};
      let ended = false;
      ask(of(id)).then(
        (status) => {
          if (ended || gone) return;
          take(status);
          w.last ||= Math.max(0, (status.n ?? 0) - KEPT);
          look();
          branch();
          stop = follow(`${of(id)}/events?follow=true&after=${w.last}`, {
            after: w.last,
            on,
            line(line) {
              w.line = line;
              if (line.state === "ended") ask(of(id)).then(take, () => {});
              show();
            },
          });
        },
        (problem) => {
          w.wrong = problem.message;
          show();
        },
      );
      return () => {
        ended = true;
        stop();
      };
    };
    const end = whileSeen(begin);
    return () => {
      gone = true;
      clearTimeout(due);
      clearTimeout(asked);
      end();
    };
  }, [id]);
  return { run, ...w };
}
