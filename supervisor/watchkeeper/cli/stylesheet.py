"""How the report looks: one sheet for light, dark and paper. Nothing is loaded from anywhere."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --paper: #fbfaf7; --card: #ffffff; --ink: #23272e; --soft: #646a73; --line:
  #e2dfd8; --bar: #5b7f9e; --aim: #a39c8c; --nudge: #b07d0a; --block: #c4561d; --stop: #b3261e; --quiet: #d9d6ce;
  --good: #3d7a4e; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181c; --card: #1d2025; --ink: #dfe2e6; --soft: #9aa1aa; --line: #31353c; --bar: #7ea6c9;
    --aim: #6d7480; --nudge: #d9a93c; --block: #e0824b; --stop: #ee7268; --quiet: #41464f; --good: #7fbf92; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 28px 80px; }
h1 { font-size: 1.75rem; line-height: 1.25; font-weight: 650; margin: 0 0 6px; letter-spacing: -0.01em; }
h2 { font-size: 1.2rem; font-weight: 650; margin: 56px 0 6px; }
h3 { font-size: 1rem; font-weight: 600; margin: 0; overflow-wrap: anywhere; }
p { margin: 6px 0; max-width: 76ch; overflow-wrap: anywhere; }
.lead, .facts, .why, .none, figcaption, .legend { color: var(--soft); }
.facts, figcaption, .legend, .why { font-size: .875rem; }
.tiles { display: grid; grid-template-columns: repeat(4, 1fr); gap: 14px; margin: 28px 0 0; }
.tile, figure, article { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
.tile { padding: 16px 18px; }
.tile b { display: block; font-size: 1.65rem; font-weight: 600; line-height: 1.25; font-variant-numeric:
  tabular-nums; }
.tile span { display: block; font-size: .875rem; color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 10px 0; font-size: .9rem; }
th { text-align: left; font-weight: 500; color: var(--soft); font-size: .8rem; padding: 4px 14px 4px 0; }
td { padding: 4px 14px 4px 0; vertical-align: top; }
.numbers tbody { border-top: 1px solid var(--line); }
.numbers tbody tr:first-child td { padding-top: 10px; font-weight: 600; }
.numbers tbody tr:last-child td { padding-bottom: 10px; }
.numbers tbody tr + tr td { color: var(--soft); }
.numbers tbody tr + tr td:first-child { padding-left: 16px; }
.num { font-variant-numeric: tabular-nums; white-space: nowrap; }
th.num, td.right { text-align: right; }
.met { color: var(--good); }
.missed { color: var(--stop); }
.aimed { font-weight: 400; font-size: .8rem; color: var(--soft); white-space: nowrap; }
svg { display: block; }
svg.plot { width: 100%; height: auto; max-width: 560px; }
svg.small { width: 150px; height: 16px; margin-top: 4px; }
svg text { font-size: 12px; fill: var(--soft); }
svg text.n { fill: var(--ink); }
svg text.mark { font-size: 11px; }
.axis { stroke: var(--line); }
.guide { stroke: var(--aim); stroke-dasharray: 2 3; }
.aim { stroke: var(--aim); stroke-width: 1.5; }
.whisker { stroke: var(--bar); stroke-width: 2.5; stroke-linecap: round; opacity: .6; }
.dot, .bar { fill: var(--bar); }
rect.nudge { fill: var(--nudge); }
rect.block { fill: var(--block); }
rect.stop, rect.pause { fill: var(--stop); }
.plots { display: grid; grid-template-columns: 1fr 1fr; gap: 18px; margin-top: 14px; }
figure { margin: 0; padding: 18px 20px 14px; min-width: 0; }
figcaption { margin-top: 8px; }
figure h3 { margin-bottom: 10px; }
article { padding: 18px 20px 12px; margin: 16px 0; }
span.nudge, i.nudge { color: var(--nudge); }
span.block, i.block { color: var(--block); }
span.stop, i.stop, span.pause, i.pause { color: var(--stop); }
i.onset { color: var(--ink); }
span.nudge, span.block, span.pause, span.stop { font-weight: 600; white-space: nowrap; }
i { font-style: normal; }
.why { font-style: italic; }
.again { color: var(--soft); font-size: .875rem; }
.cells { display: flex; flex-wrap: wrap; gap: 3px 2px; margin: 12px 0 8px; }
.cell { display: inline-block; position: relative; width: 16px; height: 20px; border-radius: 3px; background:
  var(--quiet); color: #fff; font: 600 11px/20px ui-monospace, "DejaVu Sans Mono", monospace; text-align: center; }
.cells .cell { margin-bottom: 14px; }
.legend .cell, .calls .cell { vertical-align: -4px; }
.same::after { content: ""; position: absolute; left: 2px; right: 2px; bottom: 2px; height: 2px; background: #fff; }
.bad { box-shadow: inset 0 0 0 2px var(--stop); }
.turn { margin-left: 9px; }
.turn::before { content: ""; position: absolute; left: -6px; top: 0; bottom: 0; width: 1.5px; background:
  var(--soft); }
.cell u { position: absolute; top: 19px; left: -6px; right: -6px; text-decoration: none; font-size: 10px;
  line-height: 14px; white-space: nowrap; }
.gap { color: var(--soft); font-size: .75rem; line-height: 20px; padding: 0 6px; }
.legend { line-height: 2; max-width: none; }
.legend span { display: inline-block; margin-right: 18px; }
.a0 { background: #3b6ea5; }
.a1 { background: #b8601f; }
.a2 { background: #3f8149; }
.a3 { background: #83579c; }
.a4 { background: #2c7f80; }
.a5 { background: #84603f; }
.a6 { background: #a84c73; }
.a7 { background: #74741c; }
code { font: .8125rem/1.5 ui-monospace, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
.calls { table-layout: fixed; min-width: 560px; }
.calls th:first-child { width: 76px; }
.calls th:last-child { width: 42%; }
.calls td { border-top: 1px solid var(--line); padding: 5px 14px 5px 0; }
.calls i { margin-left: 5px; }
.calls td:last-child i { margin-left: 0; }
footer { margin-top: 56px; color: var(--soft); font-size: .8125rem; }
@media (max-width: 860px) {
  .plots { grid-template-columns: 1fr; }
  .tiles { grid-template-columns: 1fr 1fr; }
}
@media (max-width: 560px) {
  main { padding: 24px 16px 56px; }
  .numbers .wide { display: none; }
  .numbers td, .numbers th { padding-right: 8px; font-size: .78rem; }
  .numbers td:last-child, .numbers td:nth-child(4), .numbers th:nth-child(4) { padding-right: 0; }
  h1 { font-size: 1.4rem; }
  .calls { min-width: 0; }
  .calls th:first-child { width: 52px; }
  .calls td { padding-right: 8px; }
  .tile { padding: 12px 14px; }
  .tile b { font-size: 1.3rem; }
  article, figure { padding-left: 14px; padding-right: 14px; }
}
@media print {
  :root { --paper: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc; --bar: #5b7f9e; --quiet: #d9d6ce;
    --nudge: #8a6208; --block: #a84a18; --stop: #a3211a; color-scheme: light; }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact; }
  main { max-width: none; padding: 0; }
  article, figure, .tile, tbody { break-inside: avoid; }
  h2 { break-after: avoid; }
  body { font-size: 11pt; }
  .scroll { overflow: visible; }
  .calls { min-width: 0; }
}
"""
