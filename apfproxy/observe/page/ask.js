// Questions to the server.

/** The JSON at an address; throws an error that says in words why there is none. */
export async function ask(address, query) {
  let answer;
  try {
    answer = await fetch(`${address}?${query}`, { headers: { Accept: "application/json" } });
  } catch {
    throw new Error("The proxy cannot be reached.");
  }
  if (!answer.ok) throw new Error((await answer.text()).trim() || `The proxy answers ${answer.status}.`);
  return answer.json();
}
