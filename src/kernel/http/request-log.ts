import type { Log } from '../../ports/log.ts';
import type { Exchange } from './exchange.ts';
import { maskQuery } from './query.ts';

const MAX_PATH = 256;
const MAX_QUERY = 512;
const MAX_CLIENT = 128;

/** The one line of a request. The key in its query is masked; headers are not written except the client's name. */
export function logRequest(log: Log, exchange: Exchange, elapsedMs: number): void {
  const { request, target, status, caller } = exchange;
  const fields: Record<string, unknown> = {
    requestId: exchange.requestId,
    method: request.method,
    path: target.path.slice(0, MAX_PATH),
    route: exchange.route,
    status,
    ms: Math.round(elapsedMs * 1000) / 1000,
    bytesOut: exchange.bytesOut,
    remote: exchange.remoteAddress,
  };
  if (target.query !== '') fields['query'] = maskQuery(target.query).slice(0, MAX_QUERY);
  if (exchange.rpcLabel !== undefined) fields['rpc'] = exchange.rpcLabel.slice(0, 64);
  if (caller !== null) {
    fields['projectId'] = caller.projectId;
    fields['keyId'] = caller.keyId;
  }
  const { headers } = request;
  const client = headers['x-helius-client'] ?? headers['solana-client'] ?? headers['user-agent'];
  if (typeof client === 'string') fields['client'] = client.slice(0, MAX_CLIENT);
  if (status >= 500) log.warn(fields, 'request');
  else log.info(fields, 'request');
}
