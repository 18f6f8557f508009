/** Calls and answers of the proxy rows. */
export const PROXY_KEY = 'bench-proxy-key';
/** Share of the reads that the plugin shadow compares. */
export const SHADOW_SHARE = 0.1;

export const READ =
  '{"jsonrpc":"2.0","id":"bench","method":"getAccountInfo","params":["11111111111111111111111111111111"]}';
export const CACHED = '{"jsonrpc":"2.0","id":"bench","method":"getTransaction","params":["bench",{"encoding":"json"}]}';

/** An account of 165 bytes in base64, as a token account. */
export function accountText(): string {
  const value = {
    data: ['A'.repeat(220), 'base64'],
    executable: false,
    lamports: 2_039_280,
    owner: '1'.repeat(32),
    space: 165,
  };
  return JSON.stringify({ jsonrpc: '2.0', result: { context: { slot: 312_345_678 }, value }, id: 'bench' });
}

/** About the size of a usual transaction with its logs. */
export function transactionText(): string {
  const logMessages = Array.from({ length: 30 }, (_, i) => `Program 11111111111111111111111111111111 invoke [${i}]`);
  const meta = {
    err: null,
    fee: 5_000,
    logMessages,
    preBalances: Array(12).fill(1e9),
    postBalances: Array(12).fill(1e9),
  };
  return JSON.stringify({ jsonrpc: '2.0', result: { slot: 312_345_678, meta }, id: 'bench' });
}

/** What the stand-in for a node answers to a body. */
export function answerTo(body: string): string {
  if (body === READ) return accountText();
  if (body === CACHED) return transactionText();
  // The daemon tries to open a websocket too.
  if (body === '') return '{}';
  if (body.includes('getAccountInfo')) return accountText().replace('"bench"', idOf(body));
  const result = body.includes('getGenesisHash') ? '"11111111111111111111111111111112"' : '1000';
  return `{"jsonrpc":"2.0","result":${result},"id":${idOf(body)}}`;
}

const idOf = (body: string) => JSON.stringify((JSON.parse(body) as { id?: unknown }).id ?? null);
