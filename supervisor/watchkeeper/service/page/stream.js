// Server-sent events by fetch: unlike EventSource it shows the status of a refusal, takes events of any type, and says
// when the line is cut.
import { problemOf, session } from "./api.js";

const SILENCE = 40_000; // The service pings each 15 s: after two lost pings the line is dead.
const LONGEST = 15_000;
const MOST = 16 * 1024 * 1024; // Characters of one event.

// Feed it text; it gives whole events {id, event, data}.
export function parser() {
  let rest = "";
  let id = "";
  let event = "";
  let data = [];
  return (text) => {
    const lines = (rest + text).split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop();
    if (rest.length > MOST) throw new Error("an event is too long");
    const found = [];
    for (const line of lines) {
      if (line === "") {
        if (data.length) found.push({ id, event: event || "message", data: data.join("\n") });
        event = "";
        data = [];
        continue;
      }
      const at = line.indexOf(":");
      if (at === 0) continue;
      const field = at < 0 ? line : line.slice(0, at);
      const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
      if (field === "data") data.push(value);
      else if (field === "event") event = value;
      else if (field === "id") id = value;
    }
    return found;
  };
}

// Follow a stream until it is stopped, or says `end`. After a cut it comes back with the last id that it has seen.
// `on(events)` gets what came together; `line({state, retry})`: connecting, live, cut (again at `retry`), ended, refused.
export function follow(path, { after = 0, on, line = () => {} }) {
  let stopped = false;
  let controller = null;
  let timer = 0;
  let wait = 500;

  const cut = () => {
    if (stopped) return;
    const pause = wait * (0.75 + Math.random() / 2);
    wait = Math.min(wait * 2, LONGEST);
    line({ state: "cut", retry: Date.now() + pause });
    timer = setTimeout(connect, pause);
  };

  const finish = (state) => {
    stopped = true;
    clearTimeout(timer);
    removeEventListener("online", atOnce);
    line({ state });
  };

  async function connect() {
    clearTimeout(timer);
    controller?.abort();
    const mine = (controller = new AbortController());
    const asked = session();
    let dead = setTimeout(() => mine.abort(), SILENCE);
    try {
      const headers = { Accept: "text/event-stream", ...(after ? { "Last-Event-ID": String(after) } : {}) };
      const response = await fetch(path, { headers, signal: mine.signal, credentials: "same-origin", cache: "no-store" });
      if (!response.ok) {
        await problemOf(response, asked);
        if (response.status >= 400 && response.status < 500 && response.status !== 429) return finish("refused");
        throw new Error(String(response.status));
      }
      if (response.status === 204) return finish("ended");
      line({ state: "live" });
      const parse = parser();
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(dead);
        dead = setTimeout(() => mine.abort(), SILENCE);
        const events = parse(value);
        if (!events.length || stopped) continue;
        wait = 500;
        for (const event of events) if (event.id) after = event.id;
        on(events);
        if (events.some((event) => event.event === "end")) return finish("ended");
      }
    } catch {
      // A cut line, however it was cut: come back.
    } finally {
      clearTimeout(dead);
    }
    if (mine === controller) cut();
  }

  const atOnce = () => {
    wait = 500;
    connect();
  };
  addEventListener("online", atOnce);
  line({ state: "connecting" });
  connect();
  return () => {
    stopped = true;
    clearTimeout(timer);
    controller?.abort();
    removeEventListener("online", atOnce);
  };
}

// Do something for as long as someone looks at the page: `begin()` gives its end. A page that has been hidden for a
// while holds no line open: browsers allow six to a host, and the service has others to serve.
const HIDDEN_FOR = 20_000;

export function whileSeen(begin) {
  let end = document.hidden ? null : begin();
  let timer = 0;
  const changed = () => {
    clearTimeout(timer);
    if (!document.hidden) end ||= begin();
    else {
      timer = setTimeout(() => {
        end?.();
        end = null;
      }, HIDDEN_FOR);
    }
  };
  document.addEventListener("visibilitychange", changed);
  return () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", changed);
    end?.();
    end = null;
  };
}
