import { type ModelChain, NodeError, NodeGone, type NodeView, nodeAnswer } from './list-model.ts';
import type { TestUpstream } from './upstream.ts';

const METHODS = [
  'getSlot',
  'getBlockHeight',
  'getFirstAvailableBlock',
  'minimumLedgerSlot',
  'getBlock',
  'getBlocks',
  'getBlocksWithLimit',
  'getBlockTime',
  'getTransaction',
  'getTokenAccountsByOwner',
  'getMultipleAccounts',
  'getSignatureStatuses',
  'getSignaturesForAddress',
];

interface Seen {
  readonly chain: ModelChain;
  readonly view: NodeView;
}

interface Offers {
  /** Whether it does not offer a method, when it is asked. */
  readonly refuses?: (method: string) => boolean;
  /** Addresses that are programs. */
  readonly programs?: readonly string[];
}

/** Makes an upstream a node of the model, as it is at each call. */
export function answerBy(
  node: TestUpstream,
  now: () => Seen,
  { refuses = () => false, programs = [] }: Offers = {},
): void {
  for (const method of METHODS)
    node.on(method, ({ id, params }) => {
      const { chain, view } = now();
      try {
        if (refuses(method)) throw new NodeError(-32601, 'Method not found');
        const result = nodeAnswer(chain, view, method, (params ?? []) as unknown[]);
        return { result: JSON.stringify(method === 'getMultipleAccounts' ? withPrograms(result, params) : result) };
      } catch (error) {
        if (error instanceof NodeGone) return { fault: 'reset' };
        if (!(error instanceof NodeError)) throw error;
        const { code, message } = error;
        return { chunks: [JSON.stringify({ jsonrpc: '2.0', id: id ?? null, error: { code, message } })] };
      }
    });

  function withPrograms(result: unknown, params: unknown): unknown {
    const [addresses] = params as [readonly string[]];
    const value = addresses.map((one) => (programs.includes(one) ? PROGRAM : null));
    return { ...(result as object), value };
  }
}

const PROGRAM = {
  data: ['', 'base64'],
  executable: true,
  lamports: 1,
  owner: 'BPFLoaderUpgradeab1e11111111111111111111111',
  rentEpoch: 0,
  space: 36,
};
