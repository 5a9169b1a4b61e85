// Small parts that several views have.
import { html, useEffect, useLayoutEffect, useRef } from "./dom.js";
import { amount, brief, dimensionName, duration } from "./format.js";
import { Icon } from "./icons.js";
import { isLive, kindName, since } from "./runs.js";
import { useNow } from "./store.js";

export const State = ({ kind }) =>
  html`<span class=${`state k-${kind}`}><${Icon} name=${kind} /><span>${kindName(kind)}</span></span>`;

// A bar of what is spent of a limit; without one only the amount.
export function Meter({ dimension, spent, limit, share, bare = false }) {
  const full = limit ? Math.min(1, share) : 0;
  const level = share >= 1 ? "over" : share >= 0.8 ? "near" : "";
  const words = limit
    ? `${amount(dimension, spent)} of ${amount(dimension, limit)} ${dimensionName(dimension)} (${Math.round(share * 100)} %)`
    : `${amount(dimension, spent)} ${dimensionName(dimension)}, no limit`;
  return html`<span class=${`meter ${level}`} title=${words}>
    <span class="meter-words" aria-label=${words}>
      <b>${amount(dimension, spent)}</b>
      ${limit ? html`<i>/ ${amount(dimension, limit)}${bare || dimension === "money" ? "" : ` ${dimensionName(dimension)}`}</i>` : html`<i>${dimensionName(dimension)}</i>`}
      ${level && html`<em>${Math.round(share * 100)} %</em>`}
    </span>
    <svg class="bar" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
      <rect class="bar-track" width="100" height="4" />
      ${limit ? html`<rect class="bar-full" width=${(full * 100).toFixed(1)} height="4" />` : null}
    </svg>
  </span>`;
}

export const STALE = 60;

// Time since the last progress of a live run; of one that has ended, how long ago that was.
export function Progress({ run }) {
  const now = useNow();
  if (run.kind === "queued") return html`<span class="soft" title="It waits for a worker">—</span>`;
  if (!isLive(run)) return html`<span class="soft" title="Since its end">${brief(now - run.ended)} ago</span>`;
  const seconds = now - since(run);
  const stale = seconds > STALE && run.kind === "running";
  return html`<span class=${stale ? "stale" : ""} title="Since it last found, changed or said something">
    ${stale && html`<span class="stale-mark" aria-label="No progress for long:">!</span>`}${brief(seconds)}</span>`;
}

// What it does now, in a few words.
export function doing(run) {
  if (run.kind === "waiting") return run.approvals === 1 ? "waits for you" : `waits for ${run.approvals} answers`;
  if (run.state === "ended") return run.outcome?.reason ?? "";
  if (run.state === "queued") return "waits for a worker";
  if (run.state === "paused") return "waits to be resumed";
  if (run.doing === "model") return "model";
  return run.doing || (run.state === "running" ? "between calls" : "");
}

export function Age({ from, to }) {
  const now = useNow();
  return from ? duration((to ?? now) - from) : "";
}

// A modal: the browser keeps the focus inside and gives it back; Esc closes it.
export function Modal({ title, onClose, children, wide = false }) {
  const at = useRef(null);
  useLayoutEffect(() => {
    const dialog = at.current;
    const before = document.activeElement;
    dialog.showModal();
    return () => {
      dialog.close();
      before?.isConnected && before.focus?.({ preventScroll: true });
    };
  }, []);
  useLayoutEffect(() => {
    at.current.querySelector("[data-first]")?.focus();
  }, [title]);
  const outside = (event) => event.target === at.current && onClose();
  return html`<dialog ref=${at} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onCancel=${(event) => {
    event.preventDefault();
    onClose();
  }} onMouseDown=${outside}>
    <div class="dialog-body">
      <header><h2 id="dialog-title">${title}</h2>
        <button class="ghost square" type="button" aria-label="Close" onClick=${onClose}><${Icon} name="close" /></button></header>
      ${children}
    </div>
  </dialog>`;
}

// The width of an element, as it changes.
export function useSize(at, then) {
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => then(entry.contentRect));
    observer.observe(at.current);
    return () => observer.disconnect();
  }, []);
}
