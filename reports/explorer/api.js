// The server's answers. Paths are relative to the page, so that it works behind a prefix; a token comes from the fragment.

import { fit, PAGE } from "./words.js";

const TOKEN_KEY = "roofline-token";
const BEFORE_KEY = "roofline-token-before";

/** What the server refused: `fields` are [{field, location, message, nearest}], empty where no single one is wrong. */
export class ApiProblem extends Error {
  constructor(status, detail, fields = []) {
    super(detail);
    this.status = status;
    this.fields = fields;
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
export async function ask(path, { body, signal } = {}) {
  const token = sessionStorage.getItem(TOKEN_KEY);
  const headers = token === null ? {} : { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body && JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiProblem(0, PAGE.noServer);
  }
  if (response.status === 401 && token !== null && takeTokenBefore(token)) return ask(path, { body, signal });
  if (response.ok) {
    // Health is answered whatever the token: it says nothing of it.
    const isTaken = path !== "api/health" && token === sessionStorage.getItem(TOKEN_KEY);
    if (isTaken) sessionStorage.removeItem(BEFORE_KEY);
    return response;
  }
  const problem = await response.json().catch(() => ({}));
  throw new ApiProblem(
    response.status,
    problem.detail ?? fit(PAGE.refused, { status: response.status }),
    problem.errors ?? [],
  );
}

export const get = async (path, signal) => (await ask(path, { signal })).json();
export const post = async (path, body, signal) => (await ask(path, { body, signal })).json();
