import type { Payments } from '../helpers/payments.ts';
import type { Sfc32 } from '../helpers/sfc32.ts';

/** A request to the api, without its key. */
export interface Call {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: string;
}

const WRAPPED_SOL = 'So11111111111111111111111111111111111111112';
const SOL = 'So11111111111111111111111111111111111111111';
/** A leaf that no tree has. */
const NO_LEAF = '1111111111111111111111111111111F';

export const rpc = (method: string, params: string): string =>
  `{"jsonrpc":"2.0","id":1,"method":"${method}","params":${params}}`;

/** One call of any capability, about a wallet that is paid again and again. */
export function drawCall(payments: Payments, random: Sfc32): Call {
  const address = payments.addresses[random.below(payments.addresses.length)] as string;
  const signature = payments.sent.get(address)?.at(-1) ?? '';
  const post = (path: string, body: string): Call => ({ method: 'POST', path, body });
  const wallet = (path: string): Call => ({ method: 'GET', path: `/v1/wallet/${address}/${path}` });
  const calls: readonly (() => Call)[] = [
    () => post('/', rpc('getSlot', '[]')),
    () => post('/', rpc('getBalance', `["${address}"]`)),
    () => post('/', rpc('getTransaction', `["${signature}",{"maxSupportedTransactionVersion":0}]`)),
    () => post('/', rpc('getSignaturesForAddress', `["${address}",{"limit":20}]`)),
    () => post('/', `[${rpc('getSlot', '[]')},${rpc('getLatestBlockhash', '[]')},${rpc('getBlockHeight', '[]')}]`),
    () => post('/', rpc('getCompressedAccountProof', `{"hash":"${NO_LEAF}"}`)),
    () => post('/', rpc('getIndexerSlot', '[]')),
    () => post('/v0/token-metadata', `{"mintAccounts":["${WRAPPED_SOL}"],"includeOffChain":false}`),
    () => post('/v0/transactions', `{"transactions":["${signature}"]}`),
    () => post('/v1/wallet/batch-identity', `{"addresses":["${address}"]}`),
    ...['identity', 'balances', 'history?limit=20', 'transfers?limit=20', 'funded-by'].map(
      (path) => () => wallet(path),
    ),
    () => wallet(`balance-at?mint=${SOL}&time=${Math.floor(Date.now() / 1_000) - random.below(60)}`),
    () => ({ method: 'GET', path: '/v0/webhooks' }),
    () => ({ method: 'GET', path: '/ping' }),
  ];
  return (calls[random.below(calls.length)] as () => Call)();
}
