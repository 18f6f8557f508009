import { WasmFactory } from '@lightprotocol/hasher.rs';
import { getTestRpc, type TestRpc } from '@lightprotocol/stateless.js';

/**
 * The client library's own indexer in memory: it reads the whole chain for every question and builds its trees anew. It keeps the
 * transactions that it has read, so one of them must not be asked after a roll-back.
 */
export async function createOracle(rpcUrl: string): Promise<TestRpc> {
  const oracle = await getTestRpc(await WasmFactory.getInstance(), rpcUrl, rpcUrl, rpcUrl);
  const signatures = oracle.getSignaturesForAddress.bind(oracle);
  // It takes what failed transactions tried for done.
  oracle.getSignaturesForAddress = async (...asked) => (await signatures(...asked)).filter(({ err }) => err === null);
  const known = new Map<string, Promise<unknown>>();
  const once =
    <T>(kind: string, read: (signature: string) => Promise<T>) =>
    (signature: string): Promise<T> => {
      const key = `${kind} ${signature}`;
      const found = known.get(key) ?? read(signature);
      known.set(key, found);
      return found as Promise<T>;
    };
  const versions = { maxSupportedTransactionVersion: 0, commitment: 'confirmed' } as const;
  const parsed = oracle.getParsedTransaction.bind(oracle);
  const raw = oracle.getTransaction.bind(oracle) as (signature: string, options: object) => Promise<unknown>;
  const parsedOnce = once('parsed', (signature) => parsed(signature, versions));
  const rawOnce = once('raw', (signature) => raw(signature, versions));
  oracle.getParsedTransactions = (signatures) => Promise.all(signatures.map(parsedOnce));
  oracle.getTransaction = rawOnce as typeof oracle.getTransaction;
  return oracle;
}
