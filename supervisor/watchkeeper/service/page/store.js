// A value that components follow: `set` tells everyone who uses it, once per change.
import { useEffect, useRef, useState } from "./dom.js";

export function store(value) {
  const listeners = new Set();
  return {
    get: () => value,
    set(next) {
      const now = typeof next === "function" ? next(value) : { ...value, ...next };
      if (now === value) return;
      value = now;
      for (const listener of [...listeners]) listener();
    },
    listen(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    use(select = (whole) => whole) {
      const [, again] = useState(0);
      const latest = useRef(null);
      latest.current = { select, seen: select(value) };
      useEffect(() => {
        const look = () => {
          if (latest.current.select(value) !== latest.current.seen) again((n) => n + 1);
        };
        look();
        listeners.add(look);
        return () => listeners.delete(look);
      }, []);
      return latest.current.seen;
    },
  };
}

// One clock for the whole page: seconds since the epoch by the service's clock, anew each second.
const clock = store({ now: Date.now() / 1000, ahead: 0 });
setInterval(() => {
  if (!document.hidden) clock.set({ now: Date.now() / 1000 + clock.get().ahead });
}, 1000);

export const useNow = () => clock.use((whole) => whole.now);
export const serverNow = () => Date.now() / 1000 + clock.get().ahead;

// What the service's Date header says, where the two clocks are more than two seconds apart.
export function setClock(date) {
  const ahead = Date.parse(date) / 1000 - Date.now() / 1000;
  if (Number.isFinite(ahead)) clock.set({ ahead: Math.abs(ahead) > 2 ? ahead : 0 });
}
