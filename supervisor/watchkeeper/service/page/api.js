// The public API, and nothing else: what the page can do anyone can do with curl.
import { setClock } from "./store.js";

// A refusal by the service (RFC 9457), or that it could not be reached (status 0).
export class Problem extends Error {
  constructor(status, title, detail) {
    super(detail || title);
    this.status = status;
    this.title = title;
  }
}

// Sign-ins so far: a refusal of what was asked before the last one says nothing of it.
let signIns = 0;
export const session = () => signIns;
export const beginSession = () => {
  signIns += 1;
};

let signedOut = () => {};
export const onSignedOut = (then) => {
  signedOut = then;
};

const key = () => [...crypto.getRandomValues(new Uint8Array(12))].map((b) => b.toString(16).padStart(2, "0")).join("");

export async function problemOf(response, asked) {
  let said = {};
  try {
    said = await response.json();
  } catch {
    // Not a problem document: the status has to do.
  }
  if (response.status === 401 && asked === signIns) signedOut();
  return new Problem(response.status, said.title || `HTTP ${response.status}`, said.detail);
}

export async function ask(path, { method = "GET", body, signal, accept = "application/json" } = {}) {
  const headers = { Accept: accept };
  if (method === "POST") Object.assign(headers, { "Content-Type": "application/json", "Idempotency-Key": key() });
  const asked = signIns;
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal,
      credentials: "same-origin",
      body: method === "POST" ? JSON.stringify(body ?? {}) : undefined,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable", "The service cannot be reached. Is `watchkeeper serve` running?");
  }
  if (!response.ok) throw await problemOf(response, asked);
  setClock(response.headers.get("Date"));
  if (response.status === 204) return null;
  return accept === "application/json" ? response.json() : response.text();
}

export const post = (path, body) => ask(path, { method: "POST", body });
export const of = (run) => `/v1/runs/${encodeURIComponent(run)}`;

// Runs that have no parent, newest first, from behind one.
export function runs({ before = "", limit = 200 } = {}) {
  const asked = new URLSearchParams({ limit });
  if (before) asked.set("before", before);
  return ask(`/v1/runs?${asked}`);
}
