// What was spent over the run's clock, against its limit.
import { html, useMemo, useRef, useState } from "./dom.js";
import { amount, dimensionName } from "./format.js";
import { useSize } from "./parts.js";
import { spend } from "./runs.js";

const HEIGHT = 108;
const MOST = 400; // Points that are drawn.

export function Spend({ run, timeline }) {
  const box = useRef(null);
  const [width, setWidth] = useState(300);
  const [chosen, setChosen] = useState("");
  useSize(box, (size) => setWidth(Math.max(120, Math.floor(size.width))));
  const points = timeline?.spend ?? [];
  const known = Object.keys(points.at(-1)?.spent ?? run.spent);
  const dimension = [chosen, spend(run)?.dimension, "money", "tokens"].find((name) => known.includes(name)) ?? known[0];
  const limit = run.limits[dimension] ?? null;
  const drawn = useMemo(() => curve(points, dimension, limit, timeline?.now ?? 1, width), [timeline, dimension, limit, width]);
  const spent = points.at(-1)?.spent[dimension] ?? run.spent[dimension] ?? 0;
  return html`<section class="panel" aria-label="Spend">
    <header><h2>Spend</h2><span class="grow"></span>
      ${known.length > 1 && html`<label><span class="sr">Of what</span><select class="small" value=${dimension} onChange=${(event) => setChosen(event.target.value)}>${known.map((name) => html`<option value=${name}>${dimensionName(name)}</option>`)}</select></label>`}</header>
    <div class="spend" ref=${box}>
      <p class="figure"><b>${dimension ? amount(dimension, spent) : "0"}</b>${limit ? html`<i>of ${amount(dimension, limit)} ${dimensionName(dimension)}</i>` : html`<i>${dimension ? dimensionName(dimension) : ""}, no limit</i>`}</p>
      <svg width=${width} height=${HEIGHT} viewBox=${`0 0 ${width} ${HEIGHT}`} role="img" aria-label=${`${amount(dimension, spent)} ${dimension ? dimensionName(dimension) : ""} spent`}>
        <path class="spend-base" d=${`M0 ${HEIGHT - 0.5}H${width}`} />
        ${drawn && html`<path class="spend-area" d=${drawn.area} /><path class="spend-line" d=${drawn.line} />
          ${drawn.limit != null && html`<path class="spend-limit" d=${`M0 ${drawn.limit}H${width}`} /><text class="spend-text" x=${width} y=${drawn.limit - 4}>limit ${amount(dimension, limit)}</text>`}`}
      </svg>
    </div>
  </section>`;
}

// Steps, for spend comes in steps. The limit is drawn once it is within sight of the spend. Pure.
export function curve(points, dimension, limit, now, width) {
  if (!points.length || !dimension) return null;
  const every = Math.max(1, Math.ceil(points.length / MOST));
  const kept = points.filter((_, n) => n % every === 0 || n === points.length - 1);
  const top = kept.at(-1).spent[dimension] ?? 0;
  const near = limit && top > limit * 0.3;
  const most = (near ? Math.max(limit, top) : top) * 1.15 || 1;
  const x = (t) => ((t / Math.max(now, 0.1)) * width).toFixed(1);
  const y = (n) => (HEIGHT - 1 - (n / most) * (HEIGHT - 16)).toFixed(1);
  let line = `M0 ${y(0)}`;
  for (const { t, spent } of kept) line += `H${x(t)}V${y(spent[dimension] ?? 0)}`;
  line += `H${width}`;
  return { line, area: `${line}V${HEIGHT - 1}H0z`, limit: near ? Number(y(limit)) : null };
}
