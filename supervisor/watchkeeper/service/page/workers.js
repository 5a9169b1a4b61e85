// The worker processes, and what holds those that are blocked.
import { ask } from "./api.js";
import { html, useEffect, useState } from "./dom.js";
import { oneLine, plural, visible, whole } from "./format.js";
import { Age } from "./parts.js";

const EVERY = 2000;

export function Workers() {
  const [workers, setWorkers] = useState(null);
  const [wrong, setWrong] = useState("");
  useEffect(() => {
    let timer = 0;
    let gone = false;
    const look = async () => {
      try {
        const found = await ask("/v1/workers");
        if (!gone) setWorkers(found.workers);
        setWrong("");
      } catch (problem) {
        setWrong(problem.message);
      }
      if (!gone) timer = setTimeout(look, EVERY);
    };
    look();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, []);
  return html`<section class="page" aria-label="Workers"><h1>Workers</h1>
    ${wrong && html`<p class="wrong">${wrong}</p>`}
    ${workers && !workers.length && html`<p class="soft">No worker process is there.</p>`}
    <div class="cards">${(workers ?? []).map(
      (one) => html`<article class=${`card worker w-${one.state}`} key=${one.name}>
        <header><h2>${oneLine(one.name, 60)}</h2><span class="tag">${oneLine(one.state, 30)}</span></header>
        <dl class="pairs"><div><dt>Process</dt><dd>${one.pid ?? "—"}</dd></div>
          <div><dt>Runs</dt><dd>${Array.isArray(one.runs) ? one.runs.length : (one.runs ?? 0)}</dd></div>
          <div><dt>Since</dt><dd><${Age} from=${one.since} /></dd></div>
          <div><dt>Restarts</dt><dd>${whole(one.restarts ?? 0)}</dd></div></dl>
        ${one.stack && html`<p class="soft">It does not answer. Where it was:</p><pre tabindex="0" aria-label=${`Stack of ${plural(1, "worker")}`}>${visible(one.stack)}</pre>`}
      </article>`,
    )}</div></section>`;
}
