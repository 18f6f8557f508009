/** Answers of the HTTP rows: the sizes of a wallet page and of a proof with 26 hashes. */
export const BENCH_KEY = 'bench-key';

export function cachedText(): string {
  const row = { signature: 'x'.repeat(88), slot: 312_345_678, timestamp: 1_750_000_000, fee: 5_000, error: null };
  return JSON.stringify({ data: Array.from({ length: 10 }, () => row), pagination: { hasMore: true } });
}

export function rpcText(): string {
  const hash = '11111111111111111111111111111111111111111111'.slice(0, 44);
  const value = { hash, leafIndex: 5, merkleTree: hash, proof: Array(26).fill(hash), root: hash, rootSeq: 9 };
  return JSON.stringify({ jsonrpc: '2.0', result: { context: { slot: 312_345_678 }, value }, id: 'bench' });
}
