import { RpcError } from '../../src/plugin/plugin.ts';
import type { PassedCall, SendRoute, SendRoutes } from '../../src/ports/send-routes.ts';
import { broadcast, type Targets } from './broadcast.ts';
import { BUNDLE_METHODS, type BundleMethod, type Bundles } from './bundles.ts';
import type { Protection } from './protection.ts';

export interface RouteParts {
  readonly bundles: Bundles | null;
  readonly protection: Protection;
  readonly timeoutMs: number;
}

/** What of `POST /` is not for the nodes: bundles, and transactions that are to be kept from some validators. */
export function createSendRoutes({ bundles, protection, timeoutMs }: RouteParts): SendRoutes {
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
    const body = `{"jsonrpc":"2.0","id":1,"method":"sendTransaction","params":${paramsText(call)}}`;
    return { answer: broadcast(protectedTargets, body, timeoutMs, call.tenant) };
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
