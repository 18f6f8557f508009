import type { Tenant } from './access.ts';
import { type ServiceToken, serviceToken } from './service.ts';

/** A JSON-RPC call that is about to be sent to an upstream. */
export interface PassedCall {
  readonly method: string;
  readonly body: Buffer;
  /** Start and end of the raw `params` inside `body`, or null when absent. */
  readonly params: { readonly start: number; readonly end: number } | null;
  readonly tenant?: Tenant | undefined;
  readonly requestHeader?: ((name: string) => string | undefined) | undefined;
  readonly requestQuery?: ((name: string) => readonly string[]) | undefined;
}

/** Raw JSON of the result, or of the error object of an upstream. */
export type RoutedAnswer = { readonly resultText: string } | { readonly errorText: string };

export interface SendRoute {
  readonly headers?: Readonly<Record<string, string>>;
  /** Null: the call goes to the upstreams of the main chain, and `headers` are added to its answer. */
  readonly answer: Promise<RoutedAnswer> | null;
}

/** Routes calls that do not go to the upstreams of the main chain. */
export interface SendRoutes {
  /** Null: the call is not routed here. Throws RpcError. */
  route(call: PassedCall): SendRoute | null;
}

/** Offered by the plugin `sender`. */
export const sendRoutes: ServiceToken<SendRoutes> = serviceToken('sender.routes');
