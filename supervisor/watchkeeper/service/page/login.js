// Sign in with a token. It goes into a cookie that no script can read, and is kept nowhere here.
import { post } from "./api.js";
import { html, useState } from "./dom.js";
import { Mark } from "./icons.js";
import { open } from "./state.js";

export function Login() {
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState("");
  const [busy, setBusy] = useState(false);
  const go = async (event) => {
    event.preventDefault();
    setBusy(true);
    setWrong("");
    try {
      await post("/v1/session", { token: token.trim() });
      setToken("");
      open();
    } catch (problem) {
      setWrong(problem.message);
    } finally {
      setBusy(false);
    }
  };
  return html`<main class="login"><form onSubmit=${go}>
    <${Mark} /><h1>watchkeeper</h1>
    <p class="soft">This service asks who you are. <code>watchkeeper token</code> makes a token.</p>
    <label class="field"><span>Token</span><input type="password" name="token" value=${token} required autofocus autocomplete="off"
      spellcheck="false" placeholder="wk_…" aria-invalid=${wrong ? "true" : undefined} aria-describedby="wrong" onInput=${(event) => setToken(event.target.value)} /></label>
    <p id="wrong" class="wrong" role="alert">${wrong}</p>
    <button type="submit" class="primary" disabled=${busy}>${busy ? "Asking…" : "Sign in"}</button>
  </form></main>`;
}
