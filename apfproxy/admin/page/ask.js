// Questions to the server.

/** The JSON at an address; throws an error that says in words why there is none. */
export async function ask(address, query) {
  // Of a page whose own address has a password, a relative one would have it, too, and be refused.
  const url = new URL(`${address}?${query}`, location.origin + location.pathname);
  let answer;
  try {
    answer = await fetch(url, { headers: { Accept: "application/json" } });
  } catch {
    throw new Error("The proxy cannot be reached.");
  }
  if (!answer.ok) throw new Error((await answer.text()).trim() || `The proxy answers ${answer.status}.`);
  return answer.json();
}
