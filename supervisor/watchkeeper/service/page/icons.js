// Small pictures, each of a shape of its own: no state is told by its colour alone.
import { html } from "./dom.js";

const PATHS = {
  queued: html`<circle cx="8" cy="8" r="5.500" stroke-dasharray="2.200 2.120" />`,
  running: html`<circle cx="8" cy="8" r="5.500" /><path class="filled" d="M8 5a3 3 0 0 1 0 6z" />`,
  waiting: html`<path d="M8 1.800 14.200 8 8 14.200 1.800 8z" /><path d="M8 5.200v3.400M8 10.700v.1" />`,
  pausing: html`<circle cx="8" cy="8" r="5.500" stroke-dasharray="3.400 2.360" /><path d="M6.700 6v4M9.300 6v4" />`,
  paused: html`<circle cx="8" cy="8" r="5.500" /><path d="M6.700 6v4M9.300 6v4" />`,
  cancelling: html`<circle cx="8" cy="8" r="5.500" stroke-dasharray="3.400 2.360" /><path d="m6 6 4 4M10 6l-4 4" />`,
  ending: html`<circle cx="8" cy="8" r="5.500" /><path d="M8 5v3l2 1.500" />`,
  completed: html`<circle cx="8" cy="8" r="5.500" /><path d="m5.600 8.200 1.700 1.700 3.200-3.600" />`,
  stopped: html`<path d="M5.700 2.500h4.600l3.200 3.200v4.600l-3.200 3.200H5.700l-3.200-3.200V5.700z" /><path d="M5.800 8h4.400" />`,
  cancelled: html`<circle cx="8" cy="8" r="5.500" /><path d="m4.200 4.200 7.600 7.600" />`,
  failed: html`<path d="M8 2.200 14.300 13.200H1.700z" /><path d="M8 6.400v3M8 11.300v.1" />`,
  handed_over: html`<circle cx="8" cy="8" r="5.500" /><path d="M5.300 8h5M8.200 5.700 10.500 8l-2.300 2.300" />`,
  stop: html`<rect x="4" y="4" width="8" height="8" rx="1.500" />`,
  close: html`<path d="m4.500 4.500 7 7M11.500 4.500l-7 7" />`,
  sun: html`<circle cx="8" cy="8" r="2.800" /><path d="M8 1.500v1.300M8 13.200v1.300M1.500 8h1.300M13.200 8h1.300M3.400 3.400l.9.9M11.700 11.700l.9.9M12.600 3.400l-.9.9M4.300 11.700l-.9.9" />`,
  moon: html`<path d="M13 9.600A5.600 5.600 0 0 1 6.400 3 5.600 5.600 0 1 0 13 9.600z" />`,
  search: html`<circle cx="7" cy="7" r="4" /><path d="m10 10 3.500 3.500" />`,
  help: html`<path d="M6 6.200a2 2 0 1 1 2.900 1.800c-.6.300-.9.700-.9 1.400M8 11.700v.1" /><circle cx="8" cy="8" r="6.300" />`,
  plus: html`<path d="M8 3.500v9M3.500 8h9" />`,
  back: html`<path d="M9.800 3.700 5.500 8l4.300 4.300" />`,
  down: html`<path d="M4 6.200 8 10.200l4-4" />`,
  save: html`<path d="M8 2.500v7.500M4.800 7 8 10.200 11.200 7M3 13.200h10" />`,
  model: html`<path d="M3 4.500h10v6H8l-2.500 2.200v-2.200H3z" />`,
  tools: html`<path d="m3.500 12.500 4-4M9.500 3.500a3 3 0 0 0-1.200 4.200L3.500 12.500M9.500 3.500l1 2 2 1a3 3 0 0 1-4.200 1.200" />`,
  watchdog: html`<path d="M1.800 8C3.500 5.200 5.500 3.800 8 3.800S12.500 5.200 14.200 8C12.500 10.800 10.500 12.200 8 12.200S3.500 10.800 1.800 8z" /><circle cx="8" cy="8" r="1.800" />`,
  person: html`<circle cx="8" cy="5.500" r="2.500" /><path d="M3.200 13.200c.5-2.600 2.300-4 4.800-4s4.300 1.400 4.800 4" />`,
  run: html`<circle cx="8" cy="8" r="1.800" />`,
};

export const Icon = ({ name, label }) =>
  html`<svg class=${`icon i-${PATHS[name] ? name : "run"}`} viewBox="0 0 16 16" role=${label ? "img" : undefined}
    aria-label=${label} aria-hidden=${label ? undefined : "true"}>${PATHS[name] || PATHS.run}</svg>`;

export const Mark = () =>
  html`<svg class="mark" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" />
    <path d="M6 16c3-5 6.300-7.500 10-7.500s7 2.500 10 7.500c-3 5-6.300 7.500-10 7.500S9 21 6 16z" /><circle cx="16" cy="16" r="3.400" /></svg>`;
