// The two kinds of calls that the programs of this folder make.
export const API = process.env.PARHELION_URL ?? 'http://127.0.0.1:8787';
/** A wallet of the local chain's demo: it pays every few seconds. On a real chain, name one of your own. */
export const WALLET = '4h25pvcyW2Peha1JHzkkgCK3FgqZEvUcN1XRcMA7A7Rv';

const headers = { 'content-type': 'application/json', 'x-api-key': process.env.API_KEY ?? '' };

/** A route. Waits while the index of an address is being made. Throws the error of the daemon. */
export async function ask(path, body, method = body === undefined ? 'GET' : 'POST') {
  const response = await fetch(`${API}${path}`, { method, headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (response.status === 503) {
    await new Promise((resolve) => setTimeout(resolve, 1000 * Number(response.headers.get('retry-after') ?? 1)));
    return await ask(path, body, method);
  }
  const answer = text === '' ? null : JSON.parse(text);
  if (!response.ok) throw new Error(`${response.status}: ${answer?.error?.message ?? answer?.error}`);
  return answer;
}

/** A method of JSON-RPC. Throws the error of the daemon. */
export async function rpc(method, params) {
  const { result, error } = await ask('/', { jsonrpc: '2.0', id: 1, method, params });
  if (error !== undefined) throw new Error(`${error.code}: ${error.message}`);
  return result;
}
