// The runs: tabs, filter, and rows of which only those in sight are in the document.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./dom.js";
import { count, oneLine, plural, visible, whole } from "./format.js";
import { Icon } from "./icons.js";
import { along, useKeys } from "./keys.js";
import { doing, Meter, Progress, State, useSize } from "./parts.js";
import { counted, GROUPS, isLive, listed, spend, tokens } from "./runs.js";
import { app, attempt, older, openDialog, useMay, useRuns } from "./state.js";
import { serverNow, store, useNow } from "./store.js";
import { pathOf, stripOf, strips, unwanted } from "./strips.js";

const BEYOND = 6; // Rows kept above and below what is in sight.
const WIDTH = 132;
const narrow = matchMedia("(max-width: 760px)");

// How the list is looked at: kept while other pages are open.
const looked = store({ group: "all", query: "", order: "newest", at: "", top: 0 });

export function List() {
  const all = useRuns();
  const look = looked.use();
  const { loaded, more, error, version } = app.use();
  const rows = useMemo(() => listed(all.values(), look), [version, look.group, look.query, look.order]);
  const counts = useMemo(() => counted(all.values()), [version]);
  const mine = useMay("run");
  const live = useMemo(() => rows.reduce((sum, run) => sum + isLive(run), 0), [rows]);
  const field = useRef(null);
  const body = useRef(null);

  // Keys may come faster than the list is drawn: where it stands is asked of the store.
  const place = () => rows.findIndex((run) => run.run === looked.get().at);
  const go = (by) => {
    if (!rows.length) return false;
    const at = place();
    const next = at < 0 ? 0 : along(rows.length, at, by);
    looked.set({ at: rows[next].run });
    body.current?.show(next);
    return true;
  };
  const cancelMany = () => mine && openDialog({ name: "many", query: looked.get().query, group: looked.get().group });
  useKeys({
    "/": () => field.current.focus(),
    j: () => go(1),
    k: () => go(-1),
    ArrowDown: () => go(1),
    ArrowUp: () => go(-1),
    Enter: () => {
      const run = rows[place()];
      if (run) location.hash = `#/runs/${encodeURIComponent(run.run)}`;
    },
    c: () => {
      const run = rows[place()];
      if (run && isLive(run)) openDialog({ name: "cancel", run: run.run });
    },
    C: cancelMany,
    Escape: () => (look.query ? looked.set({ query: "" }) : false),
  });

  return html`<section class="list" aria-label="Runs">
    <div class="list-head">
      <div class="tabs" role="group" aria-label="Which runs">
        ${GROUPS.map(
          ([name, title]) =>
            html`<button type="button" aria-pressed=${look.group === name} onClick=${() => looked.set({ group: name })}>
              ${title} <span class="count">${count(counts[name])}${more && name !== "live" && name !== "you" ? "+" : ""}</span></button>`,
        )}
      </div>
      <label class="search"><${Icon} name="search" /><span class="sr">Filter the runs</span>
        <input ref=${field} type="search" placeholder="Filter: words, agent:, state:, label=value" value=${look.query}
          spellcheck="false" autocomplete="off" onInput=${(event) => looked.set({ query: event.target.value })}
          onKeyDown=${(event) => {
            if (event.key === "Escape") {
              looked.set({ query: "" });
              field.current.blur();
            } else if (event.key === "Enter") {
              field.current.blur();
              if (rows.length) looked.set({ at: rows[0].run });
            }
          }} /><kbd>/</kbd></label>
      ${mine && counts.live > 0 && html`<button class="danger many" type="button" title="Cancel runs by filter (Shift + C)" onClick=${cancelMany}><${Icon} name="stop" /><span>${
        look.query && live ? `Cancel ${whole(live)}…` : "Cancel by filter…"}</span></button>`}
      ${mine && html`<button class="primary" type="button" onClick=${() => openDialog({ name: "start" })}><${Icon} name="plus" />Start a run</button>`}
    </div>
    <div class="table" role="table" aria-label="Runs" aria-rowcount=${rows.length + 1}>
      <div class="row head" role="row" aria-rowindex="1">
        <span role="columnheader">State</span>
        <${Sort} name="newest" title="Run" />
        <span role="columnheader">Now</span>
        <${Sort} name="turns" title="Turns" />
        <${Sort} name="tokens" title="Tokens" />
        <${Sort} name="spend" title="Spend" />
        <${Sort} name="progress" title="Progress" />
        <span role="columnheader">Timeline</span>
        <span role="columnheader"><span class="sr">Cancel</span></span>
      </div>
      <${Rows} handle=${body} rows=${rows} at=${look.at} more=${more && look.group !== "live" && look.group !== "you"} />
      ${!rows.length && html`<${Nothing} loaded=${loaded} error=${error} any=${all.size > 0} />`}
    </div>
  </section>`;
}

function Sort({ name, title }) {
  const { order } = looked.use();
  const on = order === name;
  return html`<span role="columnheader" aria-sort=${on ? "descending" : "none"}>
    <button type="button" class=${on ? "sort on" : "sort"} title=${`Order by ${title.toLowerCase()}`}
      onClick=${() => looked.set({ order: name })}>${title}<${Icon} name="down" /></button></span>`;
}

function Nothing({ loaded, error, any }) {
  if (error) return html`<div class="nothing"><${Icon} name="failed" /><p>${error}</p></div>`;
  if (!loaded) return html`<div class="nothing"><p>Asking for the runs…</p></div>`;
  if (any) return html`<div class="nothing"><p>No run fits.</p></div>`;
  return html`<div class="nothing"><${Icon} name="watchdog" /><p>No runs yet.</p>
    <p class="soft">Press <kbd>n</kbd>, or <code>watchkeeper run --detach "…"</code> in a terminal.</p></div>`;
}

function Rows({ rows, at, more, handle }) {
  const box = useRef(null);
  const [tall, setTall] = useState(narrow.matches ? 96 : 48);
  const [view, setView] = useState({ top: looked.get().top, height: 800 });
  useSize(box, ({ height }) => {
    setTall(narrow.matches ? 96 : 48);
    setView((before) => ({ ...before, height }));
  });
  useLayoutEffect(() => {
    box.current.scrollTop = looked.get().top;
  }, []);
  handle.current = {
    show(n) {
      const { scrollTop, clientHeight } = box.current;
      if (n * tall < scrollTop) box.current.scrollTop = n * tall;
      else if ((n + 1) * tall > scrollTop + clientHeight) box.current.scrollTop = (n + 1) * tall - clientHeight;
    },
  };
  const scrolled = ({ currentTarget: { scrollTop } }) => {
    looked.get().top = scrollTop;
    if (Math.floor(scrollTop / tall) !== Math.floor(view.top / tall)) setView((before) => ({ ...before, top: scrollTop }));
  };
  const first = Math.max(0, Math.floor(view.top / tall) - BEYOND);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / tall) + BEYOND);
  return html`<div class="rows" role="rowgroup" ref=${box} onScroll=${scrolled} tabindex="-1">
    <div class="rows-all" style=${{ height: `${rows.length * tall + (more ? 52 : 0)}px` }}>
      <div class="rows-seen" style=${{ transform: `translateY(${first * tall}px)` }}>
        ${rows.slice(first, last).map(
          (run, n) => html`<${Row} key=${run.run} run=${run} index=${first + n + 2} on=${run.run === at} />`,
        )}
        ${more && last === rows.length && html`<div class="older"><button type="button" class="ghost" onClick=${() => attempt(older)}>Load older runs</button></div>`}
      </div>
    </div>
  </div>`;
}

function Row({ run, index, on }) {
  const link = useRef(null);
  const mine = useMay("run");
  useEffect(() => {
    if (on && (document.activeElement === document.body || document.activeElement?.closest(".rows"))) {
      link.current.focus({ preventScroll: true });
    }
  }, [on]);
  const spent = spend(run);
  const limit = run.limits.turns;
  const task = oneLine(run.spec.task) || "(no task)";
  return html`<div class=${`row k-${run.kind}${on ? " on" : ""}`} role="row" aria-rowindex=${index} data-run=${run.run}
    onMouseDown=${() => looked.set({ at: run.run })}>
    <span role="cell" class="c-state"><${State} kind=${run.kind} /></span>
    <span role="cell" class="c-run">
      <a ref=${link} class="task" href=${`#/runs/${encodeURIComponent(run.run)}`} title=${task}>${task}</a>
      <span class="meta"><b>${oneLine(run.spec.agent, 60)}</b><code>${visible(run.run)}</code>
        ${Object.entries(run.spec.labels).slice(0, 3).map(([key, value]) => html`<span class="label">${oneLine(key, 30)}=${oneLine(value, 40)}</span>`)}
        ${run.findings > 0 && html`<span class="label found"><${Icon} name="watchdog" />${plural(run.findings, "finding")}</span>`}</span>
    </span>
    <span role="cell" class="c-now" title=${oneLine(doing(run))}>${oneLine(doing(run), 80)}</span>
    <span role="cell" class="c-turns num"><b>${run.turn}</b>${limit ? html`<i>/${limit}</i>` : ""}</span>
    <span role="cell" class="c-tokens num" title=${plural(tokens(run), "token")}>${count(tokens(run))}</span>
    <span role="cell" class="c-spend">${spent ? html`<${Meter} ...${spent} />` : html`<span class="soft">—</span>`}</span>
    <span role="cell" class="c-progress num"><${Progress} run=${run} /></span>
    <span role="cell" class="c-strip"><${Strip} run=${run} /></span>
    <span role="cell" class="c-cancel">${isLive(run) && mine && html`<button type="button" class="ghost square danger" title="Cancel (c)"
      aria-label=${`Cancel ${run.run}`} onClick=${() => openDialog({ name: "cancel", run: run.run })}><${Icon} name="stop" /></button>`}</span>
  </div>`;
}

function Strip({ run }) {
  const version = strips.use((whole) => whole.version);
  const now = useNow();
  useEffect(() => () => unwanted(run.run), []);
  const strip = stripOf(run);
  const length = strip && (isLive(run) ? Math.max(1, serverNow() - strip.began) : strip.length || 1);
  const drawn = useMemo(
    () =>
      strip && {
        model: pathOf(strip.bars, "model", length, WIDTH, 3, 6),
        tools: pathOf(strip.bars, "tools", length, WIDTH, 11, 6),
        marks: strip.marks.map((t) => `M${((t / length) * WIDTH).toFixed(1)} 0v20`).join(""),
      },
    [strip, version, isLive(run) ? now : 0, run.state],
  );
  if (!drawn) return html`<svg class="strip empty" viewBox=${`0 0 ${WIDTH} 20`} aria-hidden="true"><path d=${`M0 10h${WIDTH}`} /></svg>`;
  return html`<svg class="strip" viewBox=${`0 0 ${WIDTH} 20`} role="img"
    aria-label=${`Timeline: ${whole(strip.bars.length)} spells of work, ${plural(strip.marks.length, "finding")}`}>
    <path class="s-base" d=${`M0 10h${WIDTH}`} /><path class="s-model" d=${drawn.model} /><path class="s-tools" d=${drawn.tools} /><path class="s-marks" d=${drawn.marks} /></svg>`;
}
