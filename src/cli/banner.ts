import type { FirstStart } from '../daemon/daemon.ts';
import type { DaemonAddresses } from '../daemon/fronts.ts';

const RULE = '='.repeat(62);

/** Shown first: states that this is not a public network. */
export function localChainBanner(chain: {
  readonly rpcUrl: string;
  readonly wsUrl: string;
  readonly socketPort: number | null;
  readonly engine: string;
}): string[] {
  return [
    RULE,
    ' LOCAL CHAIN  -  not a public Solana network',
    ' No upstream is configured, so a temporary chain was started',
    ` in memory (${chain.engine}). Data and keys are for trying out.`,
    ` RPC  ${chain.rpcUrl}     WS  ${chain.wsUrl}`,
    ...(chain.socketPort === null ? [] : [` It also uses port ${chain.socketPort}, for websockets only.`]),
    ' For a real network: SOLANA_RPC_URL=... npm start',
    RULE,
  ];
}

/** The address of the example webhook: on the local chain an account with activity every few seconds, elsewhere a quiet one. */
const WATCHED = { local: '11111111111111111111111111111111', rpc: 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr' };
const EXAMPLE_RECEIVER = 'http://127.0.0.1:9900/hook';

/** Addresses, key and operator token if this start created them, and commands that can be copied. */
export function welcome(
  { api, websocket, admin }: DaemonAddresses,
  { key: first, operatorToken }: FirstStart,
  { chain, program }: { readonly chain: 'local' | 'rpc'; readonly program: string },
): string[] {
  if (api === null) return ['', ` Admin      ${admin}  (/healthz, /readyz, /metrics)`, ''];
  const lines = [
    '',
    ` API        ${api}`,
    ...(websocket === null ? [] : [` WebSocket  ${websocket}`]),
    ` Admin      ${admin}  (/healthz, /readyz, /metrics, /dashboard)`,
    ` Docs       ${api}/docs`,
    ...(operatorToken === null
      ? []
      : [` Dashboard  ${admin}/dashboard`, ` Operator   ${operatorToken}   (shown only once)`]),
  ];
  if (first === null) {
    const how = `${program} projects list; ${program} keys create --project ID`;
    return [...lines, ' API key    created at an earlier start; for a new one:', `            ${how}`, ''];
  }
  const hook = JSON.stringify({
    webhookURL: EXAMPLE_RECEIVER,
    webhookType: 'raw',
    accountAddresses: [WATCHED[chain]],
  });
  return [
    ...lines,
    ` Project    ${first.projectId}`,
    ` API key    ${first.key}   (shown only once)`,
    '',
    ' Try:',
    `curl ${api}/ping`,
    `curl '${api}/?api-key=${first.key}' -d '{"jsonrpc":"2.0","id":1,"method":"getSlot"}'`,
    `curl '${api}/v0/webhooks?api-key=${first.key}' -d '${hook}'`,
    '',
  ];
}
