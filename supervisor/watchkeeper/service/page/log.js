// The live log: one line a fact, held or following, and the whole fact beside it.
import { html, useEffect, useMemo, useRef, useState } from "./dom.js";
import { callOf, describe, DETAILS } from "./facts.js";
import { plural, place, visible } from "./format.js";
import { Icon } from "./icons.js";
import { along, useKeys } from "./keys.js";
import { useSize } from "./parts.js";

const TALL = 26;
const BEYOND = 10;

export function Log({ events, first, live, picked, pick }) {
  const [details, setDetails] = useState(false);
  const [query, setQuery] = useState("");
  const [held, setHeld] = useState(null); // How many facts there were when it was held.
  const [follows, setFollows] = useState(true);
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 400 });
  useSize(box, ({ height }) => setView((before) => ({ ...before, height })));
  const upTo = held ?? events.length;
  const rows = useMemo(() => {
    const wanted = query.toLowerCase();
    const found = [];
    for (let i = 0; i < upTo; i += 1) {
      const event = events[i];
      if (!details && DETAILS.has(event.type)) continue;
      if (wanted) {
        const words = describe(event);
        if (!`${words.title} ${words.text} ${event.type} ${callOf(event)}`.toLowerCase().includes(wanted)) continue;
      }
      found.push(event);
    }
    return found;
  }, [upTo, details, query, events]);
  useEffect(() => {
    if (follows && held == null && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [rows.length, follows, held]);
  const at = rows.findIndex((event) => event.n === picked.n);
  useEffect(() => {
    if (at < 0 || picked.from === "log" || !box.current) return;
    setFollows(false);
    box.current.scrollTop = Math.max(0, at * TALL - view.height / 2);
  }, [picked]);
  const hold = () => setHeld((before) => (before == null ? events.length : null));
  const go = (by) => {
    if (!rows.length) return false;
    const next = at < 0 ? (by > 0 ? 0 : rows.length - 1) : along(rows.length, at, by);
    const { scrollTop, clientHeight } = box.current;
    if (next * TALL < scrollTop) box.current.scrollTop = next * TALL;
    else if ((next + 1) * TALL > scrollTop + clientHeight) box.current.scrollTop = (next + 1) * TALL - clientHeight;
    setFollows(false);
    pick({ n: rows[next].n, call: callOf(rows[next]), from: "log" });
    return true;
  };
  useKeys({ p: hold, j: () => go(1), k: () => go(-1), ArrowDown: () => go(1), ArrowUp: () => go(-1) });
  // Of the event's own box: a scroll may be told of when the log is gone from the page.
  const scrolled = ({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => {
    setView((before) => (Math.abs(before.top - scrollTop) < TALL / 2 ? before : { ...before, top: scrollTop }));
    setFollows(scrollHeight - scrollTop - clientHeight < TALL);
  };
  const from = Math.max(0, Math.floor(view.top / TALL) - BEYOND);
  const to = Math.min(rows.length, Math.ceil((view.top + view.height) / TALL) + BEYOND);
  return html`<div class="log">
    <div class="log-head">
      <label class="search small"><${Icon} name="search" /><span class="sr">Filter the log</span><input type="search" placeholder="Filter the log" value=${query} onInput=${(event) => setQuery(event.target.value)} /></label>
      <label class="check"><input type="checkbox" checked=${details} onChange=${(event) => setDetails(event.target.checked)} />Details</label>
      <span class="grow"></span>
      ${first > 1 && html`<span class="soft">from fact ${first} on</span>`}
      <span class="soft num">${plural(rows.length, "line")}</span>
      ${live && html`<button type="button" class=${held == null ? "ghost" : "on"} aria-pressed=${held != null} title="Hold the log (p)" onClick=${hold}><${Icon} name=${held == null ? "paused" : "running"} />${held == null ? "Hold" : `${plural(events.length - held, "new fact")}, go on`}</button>`}
    </div>
    <div class="log-rows" ref=${box} onScroll=${scrolled} tabindex="0" role="log" aria-live="off" aria-label="Facts of the run">
      <div class="log-all" style=${{ height: `${rows.length * TALL}px` }}><div style=${{ transform: `translateY(${from * TALL}px)` }}>
        ${rows.slice(from, to).map((event) => html`<${Line} key=${event.n ?? `gap${event.first}`} event=${event} on=${picked.n === event.n} marked=${picked.calls.has(callOf(event))} pick=${pick} />`)}
      </div></div>
    </div>
  </div>`;
}

function Line({ event, on, marked, pick }) {
  const { lane, title, text, tone } = describe(event);
  return html`<div class=${`log-row l-${lane} ${tone}${on ? " on" : ""}${marked ? " marked" : ""}`} data-n=${event.n} onClick=${() => pick({ n: event.n, call: callOf(event), from: "log" })}>
    <time class="num">${place(event.t)}</time><${Icon} name=${lane} /><b>${title}</b><span>${text}</span></div>`;
}

// The whole of a fact, as the API has it.
export function Fact({ event, close }) {
  const words = describe(event);
  return html`<aside class="fact" aria-label=${`Fact ${event.n}`}>
    <header><h3>${words.title}</h3><span class="soft num">#${event.n}, ${place(event.t)}</span><span class="grow"></span>
      <button type="button" class="ghost square" aria-label="Close" onClick=${close}><${Icon} name="close" /></button></header>
    ${event.result?.content && html`<h4>Result</h4><pre tabindex="0">${visible(event.result.content)}</pre>`}
    ${event.arguments && html`<h4>Arguments</h4><pre tabindex="0">${visible(event.arguments)}</pre>`}
    <h4>As it is logged</h4><pre tabindex="0">${visible(JSON.stringify(event, null, 2))}</pre>
  </aside>`;
}
