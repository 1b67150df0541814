// The server's answers. Paths are relative to the page, so that it works behind a prefix; a token comes from the fragment.

const TOKEN_KEY = "roofline-token";

/** What the server refused: `fields` are [{field, location, message}], empty where no single one is wrong. */
export class ApiProblem extends Error {
  constructor(status, detail, fields = []) {
    super(detail);
    this.status = status;
    this.fields = fields;
  }
}

/** Take `#token=…` out of the address, so that a copied link does not carry it; it stays for this tab only. */
export function keepToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given === null) return;
  sessionStorage.setItem(TOKEN_KEY, given);
  history.replaceState(history.state, "", location.pathname + location.search);
}

export const hasToken = () => sessionStorage.getItem(TOKEN_KEY) !== null;

/** Return the response of a request that succeeded. Throws ApiProblem; an aborted request throws AbortError. */
export async function ask(path, { body, signal } = {}) {
  const headers = hasToken() ? { Authorization: `Bearer ${sessionStorage.getItem(TOKEN_KEY)}` } : {};
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
    throw new ApiProblem(
      0,
      "The server does not answer. Start it with `roofline serve`; this page asks again with your next change.",
    );
  }
  if (response.ok) return response;
  const problem = await response.json().catch(() => ({}));
  throw new ApiProblem(
    response.status,
    problem.detail ?? `The server answered ${response.status}.`,
    problem.errors ?? [],
  );
}

export const get = async (path, signal) => (await ask(path, { signal })).json();
export const post = async (path, body, signal) => (await ask(path, { body, signal })).json();

/** Call `onEvent(name, data)` for each server-sent event until the stream ends; EventSource could not send a token. */
export async function stream(path, signal, onEvent) {
  const reader = (await ask(path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    pending += value;
    const blocks = pending.split("\n\n");
    pending = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const field = (name) =>
        lines
          .filter((line) => line.startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).trim())
          .join("\n");
      if (field("data")) onEvent(field("event") || "message", JSON.parse(field("data")));
    }
  }
}
