// The server's answers. Paths are relative to the page, so that it works behind a prefix; a token comes from the fragment.

const TOKEN_KEY = "roofline-token";
const BEFORE_KEY = "roofline-token-before";

/** What the server refused, in its words. */
export class ApiProblem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Take `#token=…` out of the address, so that a copied link does not carry it; it stays for this tab only.
 *  The one used before is kept until the server has taken the new one: a link with a wrong token signs nobody out. */
export function keepToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  history.replaceState(history.state, "", location.pathname + location.search);
  const before = sessionStorage.getItem(TOKEN_KEY);
  if (given === before || !/^[\x20-\x7e]+$/.test(given)) return; // no header could carry it
  if (before !== null && sessionStorage.getItem(BEFORE_KEY) === null) sessionStorage.setItem(BEFORE_KEY, before);
  sessionStorage.setItem(TOKEN_KEY, given);
}

/** Go back to the token used before the one that was refused; false where there is none. */
function takeTokenBefore(refused) {
  const before = sessionStorage.getItem(BEFORE_KEY);
  if (before !== null) {
    sessionStorage.setItem(TOKEN_KEY, before);
    sessionStorage.removeItem(BEFORE_KEY);
  }
  return sessionStorage.getItem(TOKEN_KEY) !== refused; // another request may have gone back meanwhile
}

export const hasToken = () => sessionStorage.getItem(TOKEN_KEY) !== null;

/** Return the response of a request that succeeded. Throws ApiProblem; an aborted request throws AbortError. */
export async function ask(path, { signal } = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  let response;
  try {
    response = await fetch(path, { headers: token === null ? {} : { Authorization: `Bearer ${token}` }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiProblem(0, "The server does not answer. Start it with `roofline serve`; this page asks again with your next change.");
  }
  if (response.status === 401 && token !== null && takeTokenBefore(token)) return ask(path, { signal });
  if (response.ok) {
    if (token === sessionStorage.getItem(TOKEN_KEY)) sessionStorage.removeItem(BEFORE_KEY);
    return response;
  }
  const problem = await response.json().catch(() => ({}));
  throw new ApiProblem(response.status, problem.detail ?? `The server answered ${response.status}.`);
}
