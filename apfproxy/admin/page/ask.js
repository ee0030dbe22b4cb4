// Questions to the server.

import { byId, setShown, setText } from "./dom.js";

/** The worker that this page is of; null if it is of all there are. */
const worker = new URLSearchParams(location.search).get("worker");

/** The address of another page, of the same worker. */
export function address(path, query = "") {
  // Of a page whose own address has a password, a relative one would have it, too, and be refused.
  const url = new URL(path, location.origin + location.pathname);
  for (const [name, value] of new URLSearchParams(query)) url.searchParams.append(name, value);
  if (worker !== null) url.searchParams.set("worker", worker);
  return url;
}

/** The JSON of a page; throws an error that says in words why there is none. */
export async function ask(path, query) {
  let answer;
  try {
    answer = await fetch(address(path, query), { headers: { Accept: "application/json" } });
  } catch {
    throw new Error("The proxy cannot be reached.");
  }
  if (!answer.ok) throw new Error((await answer.text()).trim() || `The proxy answers ${answer.status}.`);
  return answer.json();
}

/** Names the worker, and has the links of the page lead to those of the same one. */
export function showWorker() {
  if (worker === null) return;
  setText(byId("worker"), worker);
  setShown(byId("of-worker"), true);
  for (const link of document.querySelectorAll("footer a, #of-cluster a")) link.href = address(link.getAttribute("href"));
}
