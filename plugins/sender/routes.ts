import { isPlainObject } from '../../src/lib/json.ts';
import { rpcRequestOf } from '../../src/lib/json-rpc.ts';
import { type CallContext, RpcError, type UpstreamPool } from '../../src/plugin/plugin.ts';
import type { PassedCall, RoutedAnswer, SendRoute, SendRoutes } from '../../src/ports/upstream.ts';
import { broadcast, type Exchange, exchange, noAnswer, type Protection, type Targets } from './broadcast.ts';
import type { SenderConfig } from './config.ts';
import { readBundleParams } from './transaction.ts';

export interface RouteParts {
  readonly bundles: Bundles | null;
  readonly protection: Protection;
  readonly config: Pick<SenderConfig, 'timeoutMs'>;
}

/** Calls of `POST /` that bypass the nodes: bundles, and transactions with `mev-protect`. */
export function createSendRoutes({ bundles, protection, config }: RouteParts): SendRoutes {
  function routeBundle(method: BundleMethod, call: PassedCall): SendRoute {
    if (bundles === null) {
      throw new RpcError('methodNotFound', { details: 'no taker of bundles is configured (sender.bundleUrls)' });
    }
    const text = paramsText(call);
    const wanted = method === 'sendBundle' && isWanted(bundles.protection, call);
    const targets = wanted ? bundles.protection.targets() : null;
    const answer = bundles.ask(method, JSON.parse(text), text, call, targets);
    return wanted && targets === null ? { headers: bundles.protection.missing, answer } : { answer };
  }

  function routeTransaction(call: PassedCall): SendRoute | null {
    if (!isWanted(protection, call)) return null;
    const protectedTargets: Targets | null = protection.targets();
    if (protectedTargets === null) return { headers: protection.missing, answer: null };
    const body = rpcRequestOf('sendTransaction', paramsText(call));
    return { answer: broadcast(protectedTargets, body, config.timeoutMs, call.tenant) };
  }

  return {
    route(call) {
      const bundle = BUNDLE_METHODS.find((method) => method === call.method);
      if (bundle !== undefined) return routeBundle(bundle, call);
      return call.method === 'sendTransaction' ? routeTransaction(call) : null;
    },
  };
}

const paramsText = ({ body, params }: PassedCall): string =>
  params === null ? '[]' : body.toString('utf8', params.start, params.end);

const isWanted = (protection: Protection, { requestQuery }: PassedCall): boolean =>
  protection.wanted(requestQuery?.('mev-protect') ?? []);

const BUNDLE_METHODS = ['sendBundle', 'getBundleStatuses', 'simulateBundle'] as const;
export type BundleMethod = (typeof BUNDLE_METHODS)[number];

/** Forwarded unchanged; the bundle server knows its regions. */
const REGION_HEADER = 'jito-region';
const REGION = /^[a-z0-9-]{1,32}$/i;
const MAX_IDS = 5;
const MAX_SIMULATED = 5;

/** Calls the bundle servers one after the other. */
export interface Bundles {
  readonly protection: Protection;
  /** `paramsText` is forwarded unchanged after `params` were checked. `targets`: null for all bundle servers. Throws RpcError. */
  ask(
    method: BundleMethod,
    params: unknown,
    paramsText: string,
    context: Pick<CallContext, 'requestHeader' | 'tenant'>,
    targets?: Targets | null,
  ): Promise<RoutedAnswer>;
}

export function createBundles(
  pool: UpstreamPool,
  protection: Protection,
  config: Pick<SenderConfig, 'timeoutMs'>,
): Bundles {
  return {
    protection,
    async ask(method, params, paramsText, context, targets = null) {
      checkParams(method, params);
      const region = context.requestHeader?.(REGION_HEADER);
      if (region !== undefined && !REGION.test(region)) throw invalid(`${REGION_HEADER} is not the name of a region`);
      const body = rpcRequestOf(method, paramsText);
      const more = {
        tenant: context.tenant,
        ...(region === undefined ? {} : { headers: { [REGION_HEADER]: region } }),
        ...(targets?.query === undefined ? {} : { query: targets.query }),
      };
      const made: Exchange[] = [];
      for (const upstream of pool.candidates()) {
        if (targets !== null && !targets.only?.has(upstream.label)) continue;
        const one = await exchange(pool, upstream, body, config.timeoutMs, more);
        if (one.kind === 'accepted' || one.kind === 'refused') return one;
        made.push(one);
        // A bundle goes to the next server only when no byte of it can have left.
        if (method === 'sendBundle' && (one.kind !== 'failed' || one.sent)) break;
      }
      throw noAnswer(made);
    },
  };
}

function checkParams(method: BundleMethod, params: unknown): void {
  if (method === 'sendBundle') {
    readBundleParams(params);
    return;
  }
  const first: unknown = Array.isArray(params) ? params[0] : undefined;
  if (method === 'getBundleStatuses') {
    if (!isListOfText(first, MAX_IDS)) throw invalid(`params[0] has to be a list of 1 to ${MAX_IDS} bundle ids`);
    return;
  }
  const transactions = isPlainObject(first) ? first['encodedTransactions'] : undefined;
  if (!isListOfText(transactions, MAX_SIMULATED)) {
    throw invalid(`params[0].encodedTransactions has to be a list of 1 to ${MAX_SIMULATED} transactions`);
  }
}

const isListOfText = (value: unknown, most: number): boolean =>
  Array.isArray(value) && value.length > 0 && value.length <= most && value.every((one) => typeof one === 'string');

const invalid = (details: string) => new RpcError('invalidParams', { details });
